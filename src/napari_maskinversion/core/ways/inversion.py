"""MaskInversion itself, as one way among others."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from ..config import InversionConfig
from ..model import Backbone
from ..predictor import MaskInverter
from ..regions import Regions
from .base import Way


class Inversion(Way):
    """The localized embedding of each mask, as optimised.

    Parameters
    ----------
    model : Backbone
    inversion : InversionConfig, optional
    resolution, keep_aspect
        As in `Way`.
    """

    whole_image = True

    def __init__(
        self, model: Backbone, *, inversion: InversionConfig | None = None, **common: Any
    ) -> None:
        super().__init__(model, **common)
        self.inversion = inversion or InversionConfig()

    def look(self, image: npt.NDArray[Any], scale: float = 1.0) -> MaskInverter:
        """Encode the image."""
        inverter = MaskInverter(self.model)
        work = inverter.set_image_steps(
            image,
            resolution=self.side(scale),
            keep_aspect=self.keep_aspect,
            layers=self.inversion.layers,
        )
        for _ in work:
            pass
        return inverter

    def rows(self, seen: MaskInverter, regions: Regions) -> Tensor:
        """Invert."""
        return torch.from_numpy(seen.invert(regions, self.inversion).embeddings)
