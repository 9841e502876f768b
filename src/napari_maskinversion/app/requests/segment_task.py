"""Segmentation with SAM in a worker, and data and features of its layer. Knows no Qt, no napari."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ...base import progress_words as words
from ...base.errors import EmptyMaskError
from ...base.regions import Region
from ...regions.affine import Affine2D
from ...regions.annotations.annotation import united
from ...regions.annotations.label_maps import draw_labels
from ...regions.cleanup import CleanUp, clean_region
from ...regions.drawn_shapes import Shape, rasterise
from ...regions.sam.folders import name_of
from ...regions.sam.prompts import AutomaticConfig, Prompt
from ..layer_input.coordinates import Plane, ViewPoint
from ..layer_input.input_pictures import Picture
from ..layer_input.label_layers import whole, with_index, with_labels
from ..work.driver import Job, show
from ..work.model_store import Kept
from ..work.preload import start_torch

if TYPE_CHECKING:
    import pandas as pd

    from ...regions.sam.segmenter import Segmented, Segmenter


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """A drawn shape that is used as a region, as `Segmented` is without scores."""

    id: int
    text: str
    drawn: Region
    shape: tuple[int, int]
    scores: tuple[float, ...] = ()

    def region(self, index: int = 0, cleanup: CleanUp | None = None) -> Region | None:
        """Return its mask, cleaned up."""
        if cleanup is None:
            return self.drawn
        return clean_region(self.drawn, self.shape, cleanup)


Found: TypeAlias = "Segmented | Drawn"


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


class Painted(NamedTuple):
    """A label image (H, W) of the plane."""

    labels: npt.NDArray[Any]
    ids: tuple[int, ...]  # Labels in it
    gone: tuple[int, ...]  # Objects that have no visible pixel left
    mark: str  # Hash of the pixels


class Segmentation(NamedTuple):
    """Segmented objects and their label image."""

    objects: tuple[Found, ...]
    painted: Painted


def paint_all(
    objects: Sequence[Found],
    chosen: Mapping[int, int],
    cleanup: CleanUp,
    shape: tuple[int, int],
) -> Painted:
    """Paint the chosen mask of each object (the best unless chosen) into a label image."""
    kept = []
    for item in objects:
        region = item.region(chosen.get(item.id, 0), cleanup)
        if region is not None:
            kept.append(region)
    if not kept:
        raise EmptyMaskError(
            "No object has any pixels left; check boxes and points, or erode less."
        )
    labels, hidden = draw_labels(kept, shape)
    ids = tuple(region.id for region in kept if region.id not in hidden)
    gone = tuple(item.id for item in objects if item.id not in ids)
    return Painted(labels, ids, gone, mark_of(labels))


def mark_of(labels: npt.NDArray[Any]) -> str:
    """Return a hash of the pixels."""
    return hashlib.blake2b(np.ascontiguousarray(labels).tobytes(), digest_size=16).hexdigest()


def segment(request: SegmentRequest, store: Kept[Segmenter]) -> Segmentation:
    """Turn boxes and points into masks; a task for a job."""
    show(words.READING_IMAGE)
    if request.checkpoint is None:
        objects: tuple[Found, ...] = _drawn(request)
    else:
        start_torch()
        show(words.loading_model(name_of(request.checkpoint)))
        path, device = request.checkpoint, request.device
        from ...regions.sam.sam_loading import load_segmenter

        changed = path.stat().st_mtime_ns if path.exists() else 0
        load = partial(load_segmenter, path, device)
        segmenter = store.get((path, changed, device), load)
        objects = tuple(_segmented(segmenter, request))
        if not objects:
            raise EmptyMaskError(
                "SAM found nothing certain in this image; lower 'Score from' or 'Stability "
                "from', or use more points."
            )
    show(Job(text=words.MAKING_REGIONS, fraction=1.0))
    painted = paint_all(objects, {}, request.cleanup, request.plane.shape)
    return Segmentation(objects, painted)


def _segmented(segmenter: Segmenter, request: SegmentRequest) -> Sequence[Segmented]:
    source = request.picture.source(request.plane, request.view)
    if request.everything is None:
        return segmenter.segment(source, request.prompts)
    return segmenter.segment_everything(source, request.everything)


def _drawn(request: SegmentRequest) -> tuple[Found, ...]:
    assert request.to_shapes is not None
    shape = request.plane.shape
    parts: dict[int, list[Region]] = {}
    regions = rasterise(request.shapes, request.to_shapes, shape)
    for number, part in zip(request.objects, regions, strict=True):
        parts.setdefault(number, []).append(replace(part, id=number))
    objects = []
    for number, drawn in sorted(parts.items()):
        text = "shape" if len(drawn) == 1 else f"{len(drawn)} shapes"
        region = united(drawn)
        assert region is not None  # every object has a shape at least
        objects.append(Drawn(number, text, region, shape))
    return tuple(objects)


def on_axes(labels: npt.NDArray[Any], plane: Plane) -> npt.NDArray[Any]:
    """Return a plane's labels with the axes of the image."""
    rows, columns = plane.cut.axes
    shape = [1] * len(plane.cut.index)
    shape[rows], shape[columns] = plane.shape
    return (labels if rows < columns else labels.T).reshape(shape)


def off_axes(data: npt.NDArray[Any], plane: Plane) -> npt.NDArray[Any]:
    """Undo `on_axes`; an array of another size is returned as it is."""
    rows, columns = plane.cut.axes
    height, width = plane.shape
    if np.size(data) != height * width:
        return data
    flat = np.asarray(data).reshape((height, width) if rows < columns else (width, height))
    return flat if rows < columns else flat.T


def features_of(
    painted: Painted, objects: Sequence[Found], chosen: Mapping[int, int]
) -> pd.DataFrame:
    """Return the scores of the painted masks, by label."""
    import pandas as pd

    scores = {item.id: score_of(item, chosen) for item in objects}
    ids = sorted(painted.ids)
    column = np.array([scores[number] for number in ids], float)
    return pd.DataFrame({"index": ids, "score": column})


def renewed_features(before: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Return features with the scores of other masks; the user's columns and rows stay."""
    frame = with_labels(with_index(before), made["index"])
    scores = dict(zip(made["index"], made["score"], strict=True))
    frame["score"] = [scores.get(whole(label), np.nan) for label in frame["index"]]
    return frame


def score_of(item: Found, chosen: Mapping[int, int]) -> float | None:
    """Return the score of an object's chosen mask; None for a drawn shape."""
    if not item.scores:
        return None
    return item.scores[chosen.get(item.id, 0)]
