"""RIS (zero-shot referring segmentation): masked tokens in the last blocks, and a masked crop."""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt
import torch
from torch import Tensor

from ...base.regions import Regions
from ..compute.onednn_layers import forward_only
from ..models.backbone import Backbone
from .edits import Crop
from .region_method import RegionMethod
from .vit_blocks import cell_coverage, class_token_tower, embed_patches, project, run_blocks

SHARE: Final = 0.95  # of the masked tokens in the embedding; the masked crop has the rest
MASKED: Final = 0.25  # of the blocks, the last ones: three of twelve


class MaskedTokens(RegionMethod):
    """The [CLS] token of last blocks in which patch tokens are multiplied by the soft mask."""

    def __init__(self, model: Backbone, **common: Any) -> None:
        super().__init__(model, **common)
        self._visual = class_token_tower(model, "RIS")
        self._crop = Crop(model, resolution=model.native_resolution, fill="dataset mean")
        self._last = max(1, round(MASKED * model.num_layers))

    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Any:
        """Run the blocks before the masked ones."""
        x, grid = embed_patches(self._visual, self.preprocess(image, scale, keep_aspect))
        return (
            run_blocks(self._visual, x, stop=-self._last),
            grid,
            self._crop.encode(image, scale, keep_aspect),
        )

    @forward_only()
    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Run the last blocks for each region."""
        tokens, grid, crop = encoded
        weights = cell_coverage(regions, grid, tokens).flatten(1)[..., None].to(tokens.dtype)
        x = tokens.expand(len(weights), -1, -1)
        for block in self._visual.transformer.resblocks[-self._last :]:
            x = block(torch.cat([x[:, :1], x[:, 1:] * weights], 1))
        masked = project(self._visual, x[:, 0]).cpu()
        return SHARE * masked + (1 - SHARE) * self._crop.embed_regions(crop, regions)
