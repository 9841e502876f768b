"""SAM in a worker: what is asked, and what comes of it. Knows neither Qt nor napari."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
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
from ...regions.sam.checkpoints import fetch_checkpoint, get_checkpoint
from ...regions.sam.label_image import label_type, paint
from ...regions.sam.prompts import Prompt
from ..layers.coordinates import Plane, ViewPoint
from ..layers.pictures import Picture
from ..layers.rasterise import Shape, rasterise
from ..workers.fetch_task import fetched
from ..workers.preload import preload_torch
from ..workers.updates import INTERVAL, Update
from ..workers.worker_errors import Failed, Task

if TYPE_CHECKING:
    from ...regions.sam.automatic_config import AutomaticConfig
    from ...regions.sam.segmenter import Segmenter
    from ..layers.affine import Affine2D


class Found(Protocol):
    """An object and the masks it may have: `Segmented`, or a shape as it was drawn."""

    @property
    def id(self) -> int:
        """Its label."""

    @property
    def text(self) -> str:
        """What was said about it."""

    @property
    def scores(self) -> tuple[float, ...]:
        """Of its masks, the best first."""

    def region(self, index: int = 0, cleanup: CleanUp | None = None) -> Region | None:
        """Make one of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A shape that is a region as it is."""

    id: int
    text: str
    own: Region
    shape: tuple[int, int]
    scores: tuple[float, ...] = ()

    def region(self, index: int = 0, cleanup: CleanUp | None = None) -> Region | None:
        """Give its mask, cleaned."""
        return self.own if cleanup is None else clean_region(self.own, self.shape, cleanup)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SegmentRequest:
    """Everything that is needed, copied from the windows.

    Parameters
    ----------
    view : ViewPoint
    picture : Picture
    plane : Plane
    prompts : tuple of Prompt
    shapes : tuple of Shape
        As they were drawn.
    objects : tuple of int
        Number of each shape's object; several shapes may be one.
    to_shapes : Affine2D or None
        From pixels to the shapes' coordinates.
    checkpoint : Path or None
        None makes the shapes regions.
    device : str
    everything : AutomaticConfig or None
        How everything in the image is looked for; boxes and points do not count then.
    cleanup : CleanUp
    """

    view: ViewPoint
    picture: Picture
    plane: Plane
    prompts: tuple[Prompt, ...]
    shapes: tuple[Shape, ...] = ()
    objects: tuple[int, ...] = ()
    to_shapes: Affine2D | None = None
    checkpoint: Path | None = None
    device: str = "auto"
    everything: AutomaticConfig | None = None
    cleanup: CleanUp


@dataclass(frozen=True, slots=True, eq=False)
class Painted:
    """A label image of the plane.

    Parameters
    ----------
    labels : ndarray, shape (H, W)
    ids : tuple of int
        Labels in it.
    gone : tuple of int
        Objects of which nothing is left, or nothing seen.
    mark : str
        Tells the pixels from others.
    """

    labels: npt.NDArray[Any]
    ids: tuple[int, ...]
    gone: tuple[int, ...]
    mark: str


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What was found, and its label image."""

    found: tuple[Found, ...]
    painted: Painted


def paint_all(
    found: Sequence[Found], chosen: Mapping[int, int], cleanup: CleanUp, shape: tuple[int, int]
) -> Painted:
    """Make the label image of the masks chosen (by object; else the best).

    Raises
    ------
    EmptyMaskError
        If no object has a pixel.
    """
    regions = [one.region(chosen.get(one.id, 0), cleanup) for one in found]
    kept = [region for region in regions if region is not None]
    if not kept:
        raise EmptyMaskError("No object has a pixel left; look at boxes and points, or erode less.")
    labels = np.zeros(shape, label_type(kept))
    hidden = set(paint(labels, kept))
    ids = tuple(region.id for region in kept if region.id not in hidden)
    gone = tuple(one.id for one in found if one.id not in ids)
    return Painted(labels, ids, gone, mark_of(labels))


def mark_of(labels: npt.NDArray[Any]) -> str:
    """Tell pixels from others."""
    return hashlib.blake2b(np.ascontiguousarray(labels).tobytes(), digest_size=16).hexdigest()


@dataclass(slots=True)
class SegmenterStore:
    """Keeps the SAM used last in memory, with the planes it has seen."""

    _key: tuple[str, int, str] | None = None
    _segmenter: Segmenter | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, path: Path, device: str) -> Segmenter:
        """Load a checkpoint, or give the one that is loaded."""
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
        """Forget the model; never waits for one that is being loaded."""
        if self._lock.acquire(blocking=False):
            self._segmenter = self._key = None
            self._lock.release()


class SegmentTask(Task):
    """One press of Segment. `finished` is an `Outcome`."""

    def __init__(self, request: SegmentRequest, store: SegmenterStore) -> None:
        super().__init__()
        self._asked: SegmentRequest | None = request
        self._store = store
        self._running: Generator[Any, None, Any] | None = None

    def _work(self) -> Generator[Update, None, Outcome]:
        request = self._asked
        assert request is not None  # released only when the work is over
        yield Update(text=words.READING_IMAGE)
        if request.checkpoint is None:
            found: tuple[Found, ...] = _drawn(request)
        else:
            if "torch" not in sys.modules:
                yield Update(text=words.STARTING_TORCH)
            preload_torch()
            yield Update(text=words.loading_model(request.checkpoint.name))
            segmenter = self._store.get(request.checkpoint, request.device)
            self._running = _running(segmenter, request)
            found = yield from self._follow(self._running)
            if not found:
                raise EmptyMaskError(
                    "SAM is not sure of anything in this image; lower 'Score from' or 'Stability "
                    "from', or look at more points."
                )
        yield Update(text=words.MAKING_REGIONS, fraction=1.0)
        painted = paint_all(found, {}, request.cleanup, request.plane.shape)
        self.finished = Outcome(found, painted)
        return self.finished

    def _follow(
        self, running: Generator[Any, None, Any]
    ) -> Generator[Update, None, tuple[Found, ...]]:
        last = 0.0
        while True:
            self.check_stopped()
            try:
                news = next(running)
            except StopIteration as stop:
                return tuple(stop.value)
            if time.monotonic() - last >= INTERVAL or self.stop_requested():
                last = time.monotonic()
                yield Update(text=news.text, fraction=news.fraction)

    def close(self) -> None:
        """Stop SAM between two layers or batches."""
        running, self._running = self._running, None
        if running is not None:
            with suppress(ValueError):  # being executed by the worker: it closes it itself
                running.close()

    def release(self) -> None:
        """Let go of the pixels."""
        super().release()
        self._asked = None


def _running(segmenter: Segmenter, request: SegmentRequest) -> Generator[Any, None, Any]:
    source = request.picture.source(request.plane, request.view)
    if request.everything is None:
        return segmenter.segment(source, request.prompts)
    from ...regions.sam.automatic import segment_everything

    return segment_everything(segmenter, source, request.everything)


def _drawn(request: SegmentRequest) -> tuple[Found, ...]:
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


def fetch_sam(
    name: str, on_progress: Callable[[int, int], None], cancelled: Callable[[], bool]
) -> str | Failed | None:
    """Fetch a published checkpoint; None if cancelled, `Failed` for what a user can act on."""
    spec = get_checkpoint(name)
    return fetched(
        name, lambda: fetch_checkpoint(spec, on_progress=on_progress, cancelled=cancelled)
    )
