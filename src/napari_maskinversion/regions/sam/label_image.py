"""Regions to label images, for `run` or a Labels layer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.label_blocks import join
from ...base.regions import Region
from ..annotations.label_tiles import write_tiles
from .prompts import Prompt


def paint(labels: npt.NDArray[Any], regions: Sequence[Region]) -> list[int]:
    """Write regions into a label image (H, W), smaller ones over larger ones."""
    for region in sorted(regions, key=lambda region: -region.area):
        y0, x0, y1, x1 = region.bbox
        labels[y0:y1, x0:x1][region.mask] = region.id
    hidden = []
    for region in regions:
        y0, x0, y1, x1 = region.bbox
        if not (labels[y0:y1, x0:x1] == region.id).any():
            hidden.append(region.id)
    return hidden


def label_type(regions: Sequence[Region]) -> np.dtype[Any]:
    """Return the smallest dtype for the regions' ids."""
    top = max((region.id for region in regions), default=0)
    return np.dtype(np.uint16 if top < 2**16 else np.uint32)


def write_labels(path: Path, regions: Sequence[Region], shape: tuple[int, int]) -> list[int]:
    """Write regions as a label TIFF, completely or not at all."""
    pairs = [(region.id, region) for region in regions]
    with atomic_path(path) as part:
        visible = write_tiles(part, [pairs], shape, label_type(regions).newbyteorder("<"))
    return [region.id for region in regions if (0, region.id) not in visible]


def regions_of_boxes(prompts: Sequence[Prompt]) -> list[Region]:
    """Return the boxes as regions, without a model."""
    regions = []
    for prompt in prompts:
        if not prompt.boxes:
            raise InputError(
                f"Object {prompt.id} has points but no box, and there is no SAM checkpoint; "
                "choose a checkpoint, or draw a box."
            )
        parts = []
        for box in prompt.boxes:
            (y0, y1), (x0, x1) = _pixels(box[0], box[2]), _pixels(box[1], box[3])
            parts.append((y0, x0, np.ones((y1 - y0, x1 - x0), bool)))
        joined, mask = join(parts)
        regions.append(Region(prompt.id, joined, mask))
    return regions


def _pixels(low: float, high: float) -> tuple[int, int]:
    """Return first and end of the pixels with centres in an interval, else of its middle pixel."""
    first, stop = int(np.ceil(low)), int(np.floor(high)) + 1
    if first < stop:
        return first, stop
    middle = int(np.floor((low + high) / 2 + 0.5))
    return middle, middle + 1
