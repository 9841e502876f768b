"""Masks of everything in an image: a grid of points, and what survives SAM's own doubts."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from typing import Any, Final

import numpy as np
import torch

from ...base import progress_words as words
from ...engine.compute.compute_lock import locked_steps
from ...engine.compute.onednn_layers import forward_only
from ...images.plane_source import PlaneSource
from .automatic_config import AutomaticConfig
from .candidates import crop_map
from .image_view import Sight
from .segmenter import Segmented, Segmenter, SegmentProgress

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from segment_anything import SamAutomaticMaskGenerator
    from segment_anything.utils.amg import MaskData, batch_iterator, rle_to_mask
    from segment_anything.utils.transforms import ResizeLongestSide
    from torchvision.ops import nms

__all__ = ["AutomaticConfig", "segment_everything"]

# Share of the work that encoding the image is, for the progress.
_ENCODING: Final = 0.3


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
    return (yield from locked_steps(_work(segmenter, source, config or AutomaticConfig())))


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
        yield SegmentProgress(words.counted("Point", done, len(points)), part)
        with forward_only():
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
