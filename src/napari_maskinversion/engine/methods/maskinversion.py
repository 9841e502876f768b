"""MaskInversion itself, as one way among others."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from ...base.regions import Regions
from ..invert.inverter import MaskInverter
from ..models.backbone import Backbone
from ..settings import InversionConfig
from .protocol import RegionMethod


class Inversion(RegionMethod):
    """The localized embedding of each mask, as optimised.

    Parameters
    ----------
    model : Backbone
    inversion : InversionConfig, optional
    resolution, keep_aspect
        As in `RegionMethod`.
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
