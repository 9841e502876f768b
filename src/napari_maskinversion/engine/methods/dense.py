"""Ways that give every token an embedding and average those of the mask."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy.typing as npt
from torch import Tensor

from ...base.regions import Regions
from ..models.backbone import Backbone
from .protocol import RegionMethod
from .vit_blocks import first_tokens, mean_of_tokens, tower_of


class DenseMethod(RegionMethod):
    """The mean of the mask's tokens."""

    whole_image = True
    title = ""

    def __init__(self, model: Backbone, **common: Any) -> None:
        super().__init__(model, **common)
        self.visual = tower_of(model, self.title)

    def look(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Embed every patch token."""
        x, grid = first_tokens(self.visual, self.whole_tensor(image, scale))
        return self.tokens(x)[0, 1:], grid

    def rows(self, seen: Any, regions: Regions) -> Tensor:
        """Average."""
        tokens, grid = seen
        return mean_of_tokens(tokens, grid, regions)

    @abstractmethod
    def tokens(self, x: Tensor) -> Tensor:
        """Give the embeddings (1, n, e) of tokens (1, n, d) before the first block."""
