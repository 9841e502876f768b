"""Two ways together: their similarities averaged."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch.nn.functional as F
from torch import Tensor

from ...base.regions import Regions
from .protocol import RegionMethod


class Fusion(RegionMethod):
    """The mean of two unit embeddings.

    Its product with a unit text embedding is the mean of the two cosines: the normalised scores of
    both ways, averaged. Being an embedding, it serves captions and exemplars as well as labels.

    Parameters
    ----------
    ways : tuple of RegionMethod
        Two, on one model.
    """

    def __init__(self, ways: tuple[RegionMethod, RegionMethod]) -> None:
        super().__init__(ways[0].model, resolution=ways[0].resolution)
        self.keep_aspect = ways[0].keep_aspect
        self.ways = ways

    def look(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Look with both."""
        return [way.look(image, scale) for way in self.ways]

    def rows(self, seen: Any, regions: Regions) -> Tensor:
        """Average."""
        one, other = (
            F.normalize(way.rows(part, regions), dim=1)
            for way, part in zip(self.ways, seen, strict=True)
        )
        return (one + other) / 2
