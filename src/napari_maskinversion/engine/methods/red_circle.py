"""RedCircle: a red ellipse around the region, drawn on the image at the model's size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter
from torch import Tensor

from ...base.regions import Region
from ..models.backbone import Backbone
from .region_method import ImageEditMethod, as_rgb8

Outside = Literal["as it is", "grey", "blurred"]
RED: Final = (255, 0, 0)
WIDTH: Final = 2  # pixels of the line
BLUR: Final = 10  # pixels; radius of "blurred"


class RedCircle(ImageEditMethod):
    """An ellipse inscribed in the region's box.

    Parameters
    ----------
    model : Backbone
    outside : sequence of {"as it is", "grey", "blurred"}
        How pixels outside the ellipse are edited; several versions are averaged.
    resolution, keep_aspect
        As in `RegionMethod`.
    """

    def __init__(
        self, model: Backbone, *, outside: Sequence[Outside] = ("as it is",), **common: Any
    ) -> None:
        super().__init__(model, **common)
        self.outside = tuple(outside)

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Resize the image to the model's size and make the backgrounds."""
        pixels = as_rgb8(image)
        height, width = self.input_size(pixels.shape[0], pixels.shape[1], scale)
        kind = Image.Resampling.BICUBIC
        plain = Image.fromarray(pixels).resize((width, height), kind)
        backgrounds = {
            "as it is": plain,
            "grey": plain.convert("L").convert("RGB"),
            "blurred": plain.filter(ImageFilter.GaussianBlur(BLUR)),
        }
        return (
            plain,
            [backgrounds[name] for name in self.outside],
            pixels.shape,
            self.input_side(scale),
        )

    def pictures(self, encoded: Any, region: Region) -> Iterator[Tensor]:
        """Draw the ellipse."""
        plain, backgrounds, shape, side = encoded
        y0, x0, y1, x1 = region.bbox
        down, across = plain.height / shape[0], plain.width / shape[1]
        left, top = round(x0 * across), round(y0 * down)
        box = (left, top, max(round(x1 * across) - 1, left), max(round(y1 * down) - 1, top))
        inside = Image.new("L", plain.size)
        ImageDraw.Draw(inside).ellipse(box, fill=255)
        for background in backgrounds:
            picture = Image.composite(plain, background, inside)
            ImageDraw.Draw(picture).ellipse(box, outline=RED, width=WIDTH)
            yield self.model.preprocess(
                np.asarray(picture), resolution=side, keep_aspect=self.keep_aspect
            )
