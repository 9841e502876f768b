"""CLIP [CLS]: the whole image's embedding for every region."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from torch import Tensor

from ...base.regions import Regions
from .protocol import RegionMethod
from .vit_blocks import embed_images


class WholeImage(RegionMethod):
    """The image embedding, whatever the mask."""

    def look(self, image: npt.NDArray[Any], scale: float = 1.0) -> Tensor:
        """Embed the image."""
        return embed_images(self.model, self.whole_tensor(image, scale)).cpu()

    def rows(self, seen: Tensor, regions: Regions) -> Tensor:
        """Repeat it."""
        return seen.expand(len(regions), -1).clone()
