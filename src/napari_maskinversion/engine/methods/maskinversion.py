"""MaskInversion itself, as one method among others."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from ...base.regions import Regions
from ...base.steps import drive
from ..invert.inverter import MaskInverter
from ..models.backbone import Backbone
from ..settings import InversionConfig
from .region_method import RegionMethod


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

    def encode(self, image: npt.NDArray[Any], scale: float = 1.0) -> MaskInverter:
        """Encode the image."""
        inverter = MaskInverter(self.model)
        drive(
            inverter.set_image_steps(
                image,
                resolution=self.input_side(scale),
                keep_aspect=self.keep_aspect,
                layers=self.inversion.layers,
            )
        )
        return inverter

    def embed_regions(self, encoded: MaskInverter, regions: Regions) -> Tensor:
        """Invert the masks."""
        return torch.from_numpy(encoded.invert(regions, self.inversion).raw_embeddings)
