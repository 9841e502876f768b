"""Segmentation with SAM in a worker. Knows neither Qt nor napari."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from ...base import progress_words as words
from ...base.errors import EmptyMaskError
from ...base.label_blocks import join
from ...base.regions import Region
from ...regions.masks.cleanup import CleanUp, clean_region
from ...regions.sam.label_image import label_type, paint
from ...regions.sam.prompts import Prompt
from ..layers.coordinates import Plane, ViewPoint
from ..layers.pictures import Picture
from ..layers.rasterise import Shape, rasterise
from ..workers.driver import often
from ..workers.preload import start_torch
from ..workers.updates import Update

if TYPE_CHECKING:
    from ...regions.sam.automatic_config import AutomaticConfig
    from ...regions.sam.segmenter import Segmenter
    from ..layers.coordinates import Affine2D


class SegmentedObject(Protocol):
    """An object and its candidate masks: `Segmented`, or a drawn shape."""

    @property
    def id(self) -> int:
        """Its label."""

    @property
    def text(self) -> str:
        """Its prompts in words."""

    @property
    def scores(self) -> tuple[float, ...]:
        """Scores of its masks, best first."""

    def region(self, index: int = 0, cleanup: CleanUp | None = None) -> Region | None:
        """Return one of its masks, cleaned up."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A drawn shape that is used as a region."""

    id: int
    text: str
    own: Region
    shape: tuple[int, int]
    scores: tuple[float, ...] = ()

    def region(self, index: int = 0, cleanup: CleanUp | None = None) -> Region | None:
        """Return its mask, cleaned up."""
        return self.own if cleanup is None else clean_region(self.own, self.shape, cleanup)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SegmentRequest:
    """Everything that a segmentation needs, copied on the GUI thread."""

    view: ViewPoint
    picture: Picture
    plane: Plane
    prompts: tuple[Prompt, ...]
    shapes: tuple[Shape, ...] = ()  # As drawn
    objects: tuple[int, ...] = ()  # Object number of each shape; several shapes may form one object
    to_shapes: Affine2D | None = None  # From pixels to the coordinates of the shapes
    checkpoint: Path | None = None  # None: the shapes are the regions
    device: str = "auto"
    # Settings for segmenting everything; boxes and points are ignored then
    everything: AutomaticConfig | None = None
    cleanup: CleanUp


@dataclass(frozen=True, slots=True, eq=False)
class Painted:
    """A label image of the plane.

    Shapes: labels (H, W).
    """

    labels: npt.NDArray[Any]
    ids: tuple[int, ...]  # Labels in it
    gone: tuple[int, ...]  # Objects that have no visible pixel left
    mark: str  # Hash of the pixels


@dataclass(frozen=True, slots=True, eq=False)
class Segmentation:
    """Segmented objects and their label image."""

    objects: tuple[SegmentedObject, ...]
    painted: Painted


def paint_all(
    objects: Sequence[SegmentedObject],
    chosen: Mapping[int, int],
    cleanup: CleanUp,
    shape: tuple[int, int],
) -> Painted:
    """Paint the chosen mask of each object (the best unless chosen) into a label image."""
    regions = [one.region(chosen.get(one.id, 0), cleanup) for one in objects]
    kept = [region for region in regions if region is not None]
    if not kept:
        raise EmptyMaskError(
            "No object has any pixels left; check boxes and points, or erode less."
        )
    labels = np.zeros(shape, label_type(kept))
    hidden = set(paint(labels, kept))
    ids = tuple(region.id for region in kept if region.id not in hidden)
    gone = tuple(one.id for one in objects if one.id not in ids)
    return Painted(labels, ids, gone, mark_of(labels))


def mark_of(labels: npt.NDArray[Any]) -> str:
    """Return a hash of the pixels."""
    return hashlib.blake2b(np.ascontiguousarray(labels).tobytes(), digest_size=16).hexdigest()


@dataclass(slots=True)
class SegmenterStore:
    """Keeps the last SAM in memory, with the planes it has encoded."""

    _key: tuple[str, int, str] | None = None
    _segmenter: Segmenter | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, path: Path, device: str) -> Segmenter:
        """Load a checkpoint, or return the loaded one."""
        from ...regions.sam.segmenter import load_segmenter

        with self._lock:
            try:
                changed = path.stat().st_mtime_ns
            except OSError:
                changed = 0
            key = (str(path), changed, device)
            if self._key != key or self._segmenter is None:
                self._segmenter = self._key = None  # room first: two large models may not fit
                self._segmenter = load_segmenter(path, device)
                self._key = key
            return self._segmenter

    def clear(self) -> None:
        """Forget the model, without waiting for one that is being loaded."""
        if self._lock.acquire(blocking=False):
            self._segmenter = self._key = None
            self._lock.release()


def segment(request: SegmentRequest, store: SegmenterStore) -> Generator[Any, None, Segmentation]:
    """Turn boxes and points into masks; a task for a `Worker`."""
    yield words.READING_IMAGE
    if request.checkpoint is None:
        objects: tuple[SegmentedObject, ...] = _drawn(request)
    else:
        yield from start_torch()
        yield words.loading_model(request.checkpoint.name)
        segmenter = store.get(request.checkpoint, request.device)
        objects = tuple((yield from often(_running(segmenter, request), _update)))
        if not objects:
            raise EmptyMaskError(
                "SAM found nothing certain in this image; lower 'Score from' or 'Stability "
                "from', or use more points."
            )
    yield Update(text=words.MAKING_REGIONS, fraction=1.0)
    painted = paint_all(objects, {}, request.cleanup, request.plane.shape)
    return Segmentation(objects, painted)


def _update(progress: Any) -> Update:
    return Update(text=progress.text, fraction=progress.fraction)


def _running(segmenter: Segmenter, request: SegmentRequest) -> Generator[Any, None, Any]:
    source = request.picture.source(request.plane, request.view)
    if request.everything is None:
        return segmenter.segment(source, request.prompts)
    from ...regions.sam.automatic import segment_everything

    return segment_everything(segmenter, source, request.everything)


def _drawn(request: SegmentRequest) -> tuple[SegmentedObject, ...]:
    assert request.to_shapes is not None
    shape = request.plane.shape
    parts: dict[int, list[Region]] = {}
    regions = rasterise(request.shapes, request.to_shapes, shape)
    for number, region in zip(request.objects, regions, strict=True):
        parts.setdefault(number, []).append(region)
    return tuple(_joined(number, parts[number], shape) for number in sorted(parts))


def _joined(number: int, parts: Sequence[Region], shape: tuple[int, int]) -> Drawn:
    box, mask = join([(part.bbox[0], part.bbox[1], part.mask) for part in parts])
    text = "shape" if len(parts) == 1 else f"{len(parts)} shapes"
    return Drawn(number, text, Region(number, box, mask), shape)
