"""RIS (zero-shot referring segmentation): masked tokens in the last blocks, and a masked crop."""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt
import torch
from torch import Tensor

from ...base.regions import Regions
from ..compute.onednn_layers import forward_only
from ..models.backbone import Backbone
from .masked_crop import MaskedCrop
from .protocol import BATCH, RegionMethod
from .vit_blocks import coverage, first_tokens, into_joint_space, through, tower_of

SHARE: Final = 0.95  # of the masked tokens' embedding; the rest is the masked crop's
MASKED: Final = 0.25  # of the blocks, the last ones: three of twelve


class MaskedTokens(RegionMethod):
    """The [CLS] token of last blocks that see patch tokens times the soft mask."""

    whole_image = True

    def __init__(self, model: Backbone, **common: Any) -> None:
        super().__init__(model, **common)
        self._visual = tower_of(model, "RIS")
        self._crop = MaskedCrop(model, keep_aspect=self.keep_aspect)
        self._last = max(1, round(MASKED * model.num_layers))

    def look(self, image: npt.NDArray[Any], scale: float = 1.0) -> Any:
        """Run the blocks that see no mask."""
        x, grid = first_tokens(self._visual, self.whole_tensor(image, scale))
        return through(self._visual, x, stop=-self._last), grid, self._crop.look(image, scale)

    @forward_only()
    def rows(self, seen: Any, regions: Regions) -> Tensor:
        """Run the last blocks for each region, some of them at once."""
        tokens, grid, cut = seen
        weights = coverage(regions, grid, tokens).flatten(1)[..., None].to(tokens.dtype)
        found = []
        for start in range(0, len(regions), BATCH):
            weight = weights[start : start + BATCH]
            x = tokens.expand(len(weight), -1, -1)
            for block in self._visual.transformer.resblocks[-self._last :]:
                x = block(torch.cat([x[:, :1], x[:, 1:] * weight], 1))
            found.append(into_joint_space(self._visual, x[:, 0]).cpu())
        return SHARE * torch.cat(found) + (1 - SHARE) * self._crop.rows(cut, regions)
