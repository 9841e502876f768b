"""Methods that embed every patch token and average the tokens of the mask."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy.typing as npt
from torch import Tensor

from ...base.regions import Regions
from ..models.backbone import Backbone
from .region_method import RegionMethod
from .vit_blocks import class_token_tower, embed_patches, masked_mean


class DenseMethod(RegionMethod):
    """The mean of the mask's tokens."""

    whole_image = True
    title = ""

    def __init__(self, model: Backbone, **common: Any) -> None:
        super().__init__(model, **common)
        self.visual = class_token_tower(model, self.title)

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Embed every patch token."""
        x, grid = embed_patches(self.visual, self.preprocess(image, scale))
        return self.embed_tokens(x)[0, 1:], grid

    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Average the tokens of each region."""
        tokens, grid = encoded
        return masked_mean(tokens, grid, regions)

    @abstractmethod
    def embed_tokens(self, x: Tensor) -> Tensor:
        """Return the embeddings (1, n, e) of tokens (1, n, d) before the first block."""
