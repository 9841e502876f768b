"""FGVP's blur reverse mask: the image strongly blurred, the region alone sharp."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter
from torch import Tensor

from ...base.regions import Region
from .protocol import ImageEditMethod, as_pixels, full_mask

RADIUS: Final = 100  # pixels of the image


class BlurReverseMask(ImageEditMethod):
    """The whole image blurred, its own pixels put back through the mask."""

    def look(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Blur once."""
        pixels = as_pixels(image)
        blurred = Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(RADIUS))
        return pixels, np.asarray(blurred), self.side(scale)

    def pictures(self, seen: Any, region: Region) -> Iterator[Tensor]:
        """Put the region back."""
        pixels, blurred, side = seen
        inside = full_mask(region, pixels.shape[:2])[..., None]
        picture = np.where(inside, pixels, blurred)
        yield self.model.preprocess(picture, resolution=side, keep_aspect=self.keep_aspect)
