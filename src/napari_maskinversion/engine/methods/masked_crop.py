"""Masked Crop: the image, or the region's box, with everything outside the mask painted over."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ...base.regions import Region
from ..models.backbone import Backbone
from .crop import cut_box
from .region_method import ImageEditMethod, Pixels, as_rgb8, full_mask

Fill = Literal["dataset mean", "image mean", "model mean", "blurred"]
DATASET_MEAN: Final = (0.485, 0.456, 0.406)


class MaskedCrop(ImageEditMethod):
    """Only the region's own pixels.

    Parameters
    ----------
    model : Backbone
    context : float
        As in `Crop`; infinity is the full image as in the paper, 1 the box as in its code.
    fill : {"dataset mean", "image mean", "model mean", "blurred"}
        What replaces the pixels outside the mask.
    resolution, keep_aspect
        As in `RegionMethod`.
    """

    def __init__(
        self,
        model: Backbone,
        *,
        context: float = 1.0,
        fill: Fill = "dataset mean",
        **common: Any,
    ) -> None:
        super().__init__(model, **common)
        self.context, self.fill = context, fill

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Return the pixels, the fill and the input side."""
        pixels = as_rgb8(image)
        return pixels, _fill_pixels(pixels, self.fill, self.model.mean), self.input_side(scale)

    def pictures(self, encoded: Any, region: Region) -> Iterator[Tensor]:
        """Paint over the outside and crop the box."""
        pixels, fill, side = encoded
        shape = pixels.shape[:2]
        y0, x0, y1, x1 = cut_box(region.bbox, shape, self.context)
        inside = full_mask(region, shape)[y0:y1, x0:x1, None]
        cut = np.where(inside, pixels[y0:y1, x0:x1], fill[y0:y1, x0:x1])
        whole = self.context == math.inf and self.keep_aspect
        yield self.model.preprocess(cut, resolution=side, keep_aspect=whole)


def _fill_pixels(pixels: Pixels, fill: Fill, mean: tuple[float, float, float]) -> Pixels:
    if fill == "blurred":
        from PIL import Image, ImageFilter

        radius = max(pixels.shape[:2]) / 10
        return np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(radius)))
    if fill == "image mean":
        colour = pixels.mean((0, 1))
    else:
        colour = 255 * np.array(DATASET_MEAN if fill == "dataset mean" else mean)
    return np.broadcast_to(colour.round().astype(np.uint8), pixels.shape)
