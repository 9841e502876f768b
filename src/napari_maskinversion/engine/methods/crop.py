"""Crop: the embedding of the region's box."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from ...base.regions import Region
from ..models.backbone import Backbone
from .region_method import ImageEditMethod

Box = tuple[int, int, int, int]


class Crop(ImageEditMethod):
    """The box, cropped and resized to a square.

    Parameters
    ----------
    model : Backbone
    context : float
        Side of a square crop divided by the longer side of the box; 1 is the box itself, infinity
        the whole image.
    resolution, keep_aspect
        As in `RegionMethod`.
    """

    def __init__(self, model: Backbone, *, context: float = 1.0, **common: Any) -> None:
        super().__init__(model, **common)
        self.context = context

    def pictures(self, encoded: Any, region: Region) -> Iterator[Tensor]:
        """Crop the box."""
        pixels, side = encoded
        y0, x0, y1, x1 = cut_box(region.bbox, pixels.shape[:2], self.context)
        yield self.model.preprocess(pixels[y0:y1, x0:x1], resolution=side, keep_aspect=False)


def cut_box(box: Box, shape: tuple[int, int], context: float) -> Box:
    """Return the box; with a context above 1, a square around it inside the image."""
    height, width = shape
    y0, x0, y1, x1 = box
    if context == math.inf:
        return 0, 0, height, width
    if context == 1:
        return box
    side = round(context * max(y1 - y0, x1 - x0))
    tall, wide = min(side, height), min(side, width)
    top = int(np.clip((y0 + y1 - tall) // 2, 0, height - tall))
    left = int(np.clip((x0 + x1 - wide) // 2, 0, width - wide))
    return top, left, top + tall, left + wide
