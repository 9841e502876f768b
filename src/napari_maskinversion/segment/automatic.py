"""Masks of everything in an image: a grid of points, and what survives SAM's own doubts."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch

from ..core.errors import ConfigError
from ..core.turns import taking_turns
from ..images.source import PlaneSource
from .candidates import crop_map
from .seeing import Sight
from .segmenter import Segmented, Segmenter, SegmentProgress

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from segment_anything import SamAutomaticMaskGenerator
    from segment_anything.utils.amg import MaskData, batch_iterator, rle_to_mask
    from segment_anything.utils.transforms import ResizeLongestSide
    from torchvision.ops import nms

# Share of the work that encoding the image is, for the progress.
_ENCODING: Final = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticConfig:
    """How everything in an image is looked for.

    Parameters
    ----------
    points_per_side : int
        Points of the grid along each side.
    score : float
        Masks with a lower score are dropped.
    stability : float
        So are those that change more than this when the threshold moves (IoU of the two).
    overlap : float
        And those whose box overlaps that of a better one more (IoU).
    min_area : int
        And those of fewer pixels of the plane.
    batch : int
        Points asked about at once.

    Raises
    ------
    ConfigError
        If a value cannot work.
    """

    points_per_side: int = 32
    score: float = 0.88
    stability: float = 0.95
    overlap: float = 0.7
    min_area: int = 0
    batch: int = 16

    def __post_init__(self) -> None:
        if self.points_per_side < 1 or self.batch < 1:
            raise ConfigError(
                "Points per side and points at once must be at least 1; got "
                f"{self.points_per_side} and {self.batch}."
            )
        for name in ("score", "stability", "overlap"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be in 0..1; got {getattr(self, name):g}.")
        if self.min_area < 0:
            raise ConfigError(f"An area cannot be negative; got {self.min_area}.")


def segment_everything(
    segmenter: Segmenter, source: PlaneSource, config: AutomaticConfig | None = None
) -> Generator[SegmentProgress, None, list[Segmented]]:
    """Find what there is in a plane, without boxes and points; stop asking to stop the work.

    On planes larger than what SAM sees, masks are found at that size and enlarged.

    Returns
    -------
    list of Segmented
        The largest first, numbered from 1; one candidate each. They may overlap.
    """
    return (yield from taking_turns(_work(segmenter, source, config or AutomaticConfig())))


def _work(
    segmenter: Segmenter, source: PlaneSource, config: AutomaticConfig
) -> Generator[SegmentProgress, None, list[Segmented]]:
    sight, features = yield from segmenter.encode(source, _ENCODING)
    # Never finer than SAM sees: 48 maps of a large plane would not fit into memory.
    frame = sight.plane if max(sight.plane) <= max(sight.size) else sight.size
    generator = SamAutomaticMaskGenerator(
        segmenter.sam,
        points_per_side=config.points_per_side,
        pred_iou_thresh=config.score,
        stability_score_thresh=config.stability,
        box_nms_thresh=config.overlap,
    )
    _use(generator.predictor, sight, frame, features)
    whole = [0, 0, frame[1], frame[0]]
    points = generator.point_grids[0] * np.array(frame[::-1])
    found = MaskData()
    for number, (batch,) in enumerate(batch_iterator(config.batch, points)):
        done = number * config.batch
        part = _ENCODING + (1 - _ENCODING) * done / len(points)
        yield SegmentProgress(f"Point {done:,} of {len(points):,}", part)
        with torch.no_grad():
            found.cat(generator._process_batch(batch, frame, whole, frame))
    keep = nms(found["boxes"].float(), found["iou_preds"], config.overlap)
    found.filter(keep)
    return _segmented(found, sight, frame, config)


class _SinglePrecision(ResizeLongestSide):  # type: ignore[misc]
    """Places of points in a type that every device has."""

    def apply_coords(self, coords: Any, original_size: tuple[int, ...]) -> Any:
        return super().apply_coords(coords, original_size).astype(np.float32)


def _use(predictor: Any, sight: Sight, frame: tuple[int, int], features: torch.Tensor) -> None:
    """Give a predictor an image that is encoded already."""
    predictor.transform = _SinglePrecision(max(sight.size))
    predictor.features = features
    predictor.input_size, predictor.original_size = sight.size, frame
    predictor.is_image_set = True


def _segmented(
    found: Any, sight: Sight, frame: tuple[int, int], config: AutomaticConfig
) -> list[Segmented]:
    ratio = sight.plane[0] * sight.plane[1] / (frame[0] * frame[1])
    masks = []
    for rle, score in zip(found["rles"], found["iou_preds"].tolist(), strict=True):
        mask = rle_to_mask(rle)
        area = int(mask.sum())
        if area and area * ratio >= config.min_area:
            # Half way between inside and outside is where the enlarged outline runs.
            logits = np.where(mask, 1, -1).astype(np.float32)
            masks.append((area, crop_map(score, logits, [(sight.plane, sight.plane)])))
    masks.sort(key=lambda item: -item[0])
    return [
        Segmented(id=number, text="", candidates=(candidate,))
        for number, (_, candidate) in enumerate(masks, 1)
    ]
