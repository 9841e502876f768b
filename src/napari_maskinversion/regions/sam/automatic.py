"""Masks of everything in an image: SAM prompted with a grid of points, and filtered."""

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
from .sam_input import SamInput
from .segmenter import Segmented, Segmenter, SegmentProgress

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from segment_anything import SamAutomaticMaskGenerator
    from segment_anything.utils.amg import MaskData, batch_iterator, rle_to_mask
    from segment_anything.utils.transforms import ResizeLongestSide
    from torchvision.ops import nms

__all__ = ["AutomaticConfig", "segment_everything"]

# Share of the work that is encoding the image, for the progress.
_ENCODING: Final = 0.3


def segment_everything(
    segmenter: Segmenter, source: PlaneSource, config: AutomaticConfig | None = None
) -> Generator[SegmentProgress, None, list[Segmented]]:
    """Find masks of everything in a plane, without boxes and points.

    A generator; close it to stop. On planes larger than SAM's input, masks are found at the size of
    the input and enlarged.
    """
    return (yield from locked_steps(_work(segmenter, source, config or AutomaticConfig())))


def _work(
    segmenter: Segmenter, source: PlaneSource, config: AutomaticConfig
) -> Generator[SegmentProgress, None, list[Segmented]]:
    view, features = yield from segmenter.encode(source, _ENCODING)
    # Never finer than SAM's input: 48 maps of a large plane would not fit into memory.
    frame = view.plane if max(view.plane) <= max(view.size) else view.size
    generator = SamAutomaticMaskGenerator(
        segmenter.sam,
        points_per_side=config.points_per_side,
        pred_iou_thresh=config.score,
        stability_score_thresh=config.stability,
        box_nms_thresh=config.overlap,
    )
    _use(generator.predictor, view, frame, features)
    whole = [0, 0, frame[1], frame[0]]
    points = generator.point_grids[0] * np.array(frame[::-1])
    masks = MaskData()
    for number, (batch,) in enumerate(batch_iterator(config.batch, points)):
        done = number * config.batch
        part = _ENCODING + (1 - _ENCODING) * done / len(points)
        yield SegmentProgress(words.counted("Point", done, len(points)), part)
        with forward_only():
            masks.cat(generator._process_batch(batch, frame, whole, frame))
    masks.filter(nms(masks["boxes"].float(), masks["iou_preds"], config.overlap))
    return _segmented(masks, view, frame, config)


class _SinglePrecision(ResizeLongestSide):  # type: ignore[misc]
    """Point coordinates in a dtype that every device supports."""

    def apply_coords(self, coords: Any, original_size: tuple[int, ...]) -> Any:
        return super().apply_coords(coords, original_size).astype(np.float32)


def _use(predictor: Any, view: SamInput, frame: tuple[int, int], features: torch.Tensor) -> None:
    """Set the image of a predictor to one that is already encoded."""
    predictor.transform = _SinglePrecision(max(view.size))
    predictor.features = features
    predictor.input_size, predictor.original_size = view.size, frame
    predictor.is_image_set = True


def _segmented(
    data: Any, view: SamInput, frame: tuple[int, int], config: AutomaticConfig
) -> list[Segmented]:
    ratio = view.plane[0] * view.plane[1] / (frame[0] * frame[1])
    masks = []
    for rle, score in zip(data["rles"], data["iou_preds"].tolist(), strict=True):
        mask = rle_to_mask(rle)
        area = int(mask.sum())
        if area and area * ratio >= config.min_area:
            # The enlarged outline is half way between inside and outside.
            logits = np.where(mask, 1, -1).astype(np.float32)
            masks.append((area, crop_map(score, logits, [(view.plane, view.plane)])))
    masks.sort(key=lambda item: -item[0])
    return [
        Segmented(id=number, text="", candidates=(candidate,))
        for number, (_, candidate) in enumerate(masks, 1)
    ]
