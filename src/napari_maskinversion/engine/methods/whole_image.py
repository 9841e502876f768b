"""CLIP [CLS]: the whole image's embedding for every region."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from torch import Tensor

from ...base.regions import Regions
from .region_method import RegionMethod
from .vit_blocks import embed_images


class WholeImage(RegionMethod):
    """The image embedding, whatever the mask."""

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> Tensor:
        """Embed the image."""
        return embed_images(self.model, self.preprocess(image, scale)).cpu()

    def embed_regions(self, encoded: Tensor, regions: Regions) -> Tensor:
        """Repeat the image embedding."""
        return encoded.expand(len(regions), -1).clone()
