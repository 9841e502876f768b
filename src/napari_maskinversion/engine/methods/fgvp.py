"""FGVP's blur reverse mask: the image strongly blurred, only the region sharp."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter
from torch import Tensor

from ...base.regions import Region
from .region_method import ImageEditMethod, as_rgb8, full_mask

RADIUS: Final = 100  # pixels of the image


class BlurReverseMask(ImageEditMethod):
    """The blurred image with the region's own pixels pasted in."""

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Blur the image."""
        pixels = as_rgb8(image)
        blurred = Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(RADIUS))
        return pixels, np.asarray(blurred), self.input_side(scale)

    def pictures(self, encoded: Any, region: Region) -> Iterator[Tensor]:
        """Paste the region into the blurred image."""
        pixels, blurred, side = encoded
        inside = full_mask(region, pixels.shape[:2])[..., None]
        picture = np.where(inside, pixels, blurred)
        yield self.model.preprocess(picture, resolution=side, keep_aspect=self.keep_aspect)
