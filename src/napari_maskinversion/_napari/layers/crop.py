"""A region cut out of its image, with some of its surroundings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.regions import Region
from ...images.plane_source import read_reduced
from .overlays import FloatArray, border_of
from .pictures import copy_layer
from .tasks import PlaneFinder

_CONTEXT: Final = 1.7  # side of the crop, in sides of the region
_LEAST: Final = 24  # pixels
_MOST: Final = 256  # pixels of the crop that is made


@dataclass(frozen=True, slots=True, eq=False)
class Crop:
    """Pixels around a region, and its border in shares (y, x) of their height and width."""

    pixels: npt.NDArray[np.uint8]  # (h, w, 3), uint8
    border: FloatArray  # (N, 2, 2)


def crop_reader(
    image: Any, finder: PlaneFinder, region: Region, position: Any
) -> tuple[Callable[[], Crop], bool]:
    """Copy what is needed of a layer; return a function that makes the crop, for any thread.

    Also returns whether it is quick: the pixels are in memory.
    """
    view = finder.view_at(position if finder.all_planes else ())
    plane = finder.plane(position if finder.all_planes else ())
    layer = copy_layer(image, view, shown_only=True, snapshot=False)
    source = layer.source(plane.cut)
    box = surroundings(region.bbox, plane.shape)
    y0, x0, y1, x1 = box

    def make() -> Crop:
        step = -(-max(y1 - y0, x1 - x0) // _MOST)
        pixels = as_rgb(read_reduced(source, 0, box, step))
        shares = (border_of(region) + 0.5 - (y0, x0)) / (step * np.array(pixels.shape[:2]))
        return Crop(pixels, shares)

    return make, all(isinstance(level, np.ndarray) for level in layer.levels)


def surroundings(
    bbox: tuple[int, int, int, int], shape: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Return a square around a box, moved into the image where it reaches beyond."""
    y0, x0, y1, x1 = bbox
    side = max(_LEAST, round(_CONTEXT * max(y1 - y0, x1 - x0)))
    high, wide = min(side, shape[0]), min(side, shape[1])
    top = min(max((y0 + y1 - high) // 2, 0), shape[0] - high)
    left = min(max((x0 + x1 - wide) // 2, 0), shape[1] - wide)
    return top, left, top + high, left + wide


def as_rgb(pixels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return pixels of a plane source as 8-bit colours."""
    if pixels.dtype == np.uint16:
        pixels = pixels >> 8
    elif pixels.dtype != np.uint8:
        pixels = 255 * np.clip(pixels, 0, 1) + 0.5
    colours = pixels.astype(np.uint8)
    if colours.ndim == 2:
        colours = np.repeat(colours[:, :, None], 3, axis=2)
    return np.ascontiguousarray(colours[:, :, :3])
