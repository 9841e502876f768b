"""A fusion of two methods: their similarities averaged."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch.nn.functional as F
from torch import Tensor

from ...base.regions import Regions
from .region_method import RegionMethod


class Fusion(RegionMethod):
    """The mean of two unit embeddings.

    Its product with a unit text embedding is the mean of the two cosines: the normalised scores of
    both methods, averaged. As it is an embedding, it works for captions and exemplars too.

    Parameters
    ----------
    methods : tuple of RegionMethod
        Two, on one model.
    """

    def __init__(self, methods: tuple[RegionMethod, RegionMethod]) -> None:
        super().__init__(
            methods[0].model,
            resolution=methods[0].resolution,
            keep_aspect=methods[0].keep_aspect,
        )
        self.methods = methods

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Encode the image with both methods."""
        return [method.encode(image, scale) for method in self.methods]

    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Average both embeddings."""
        first, second = (
            F.normalize(method.embed_regions(part, regions), dim=1)
            for method, part in zip(self.methods, encoded, strict=True)
        )
        return (first + second) / 2
