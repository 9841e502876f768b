"""TextRegion (arXiv 2505.23769): the model's last pooling, over the values of the mask's tokens."""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from ...base.regions import Regions
from ..compute.onednn_layers import forward_only
from ..encode.attention import AttentionInputs
from ..models.backbone import Backbone
from ..models.towers.timm_vit import PooledTower
from .dense import (
    attention_update,
    cell_coverage,
    class_token_tower,
    embed_patches,
    project,
    run_blocks,
)
from .region_method import RegionMethod

GLOBAL: Final = 0.07  # tokens are dropped that are hardly more like their region than like the rest


class TextRegion(RegionMethod):
    """Attention of a [CLS] token, or of a pooling head, that is the mask itself.

    ``threshold``: least cosine by which a token is more like the tokens inside than like those
    outside; tokens below hold what the model knows of the whole image. If all are, all stay.
    Tokens count by the share of them that the mask covers; the authors do so on CLIP alone.
    """

    def __init__(self, model: Backbone, *, threshold: float = GLOBAL, **common: Any) -> None:
        super().__init__(model, **common)
        visual: Any = model.clip.visual
        self._threshold = threshold
        self._tower = None
        if PooledTower.fits(visual):
            self._tower = PooledTower(visual)
        if self._tower:
            self._visual = visual
        else:
            self._visual = class_token_tower(model, "TextRegion")

    @forward_only()
    def encode(self, image: npt.NDArray[Any], scale: float, keep_aspect: bool) -> Any:
        """Return the values (h, n, d / h) of the last attention, unit vectors to compare tokens."""
        images = self.preprocess(image, scale, keep_aspect)
        if self._tower is None:
            x, grid = embed_patches(self._visual, images)
            x = run_blocks(self._visual, x, stop=-1)
            block = self._visual.transformer.resblocks[-1]
            values = AttentionInputs.of(block, block.ln_1(x)[0]).values()[:, 1:]
            seen = values.transpose(0, 1).flatten(1)
        else:
            vit = self._visual.trunk
            grid = self._tower.token_grid((images.shape[2], images.shape[3]))
            seen = vit.norm(self._tower.run_blocks(images))[0, -grid.tokens :]
            pool = vit.attn_pool
            values = pool.kv(seen)[:, seen.shape[1] :]
            values = values.unflatten(1, (pool.num_heads, -1)).transpose(0, 1)
        return values.float(), F.normalize(seen.float(), dim=1), grid

    @forward_only()
    def embed_regions(self, encoded: Any, regions: Regions) -> Tensor:
        """Pool the tokens of each region that are not global."""
        values, seen, grid = encoded
        weights = cell_coverage(regions, grid, values).flatten(1)
        inside = (weights > 0).float()
        outside = 1 - inside
        inside_mean = (inside / inside.sum(1, keepdim=True).clamp_min(1)) @ seen
        outside_mean = (outside / outside.sum(1, keepdim=True).clamp_min(1)) @ seen
        local = weights * ((inside_mean - outside_mean) @ seen.T >= self._threshold)
        weights = torch.where(local.any(1, keepdim=True), local, weights)
        if self._tower is None:
            block = self._visual.transformer.resblocks[-1]
            # The sum, as the authors: their weights do not add up to one.
            out = attention_update(block, (weights @ values).to(block.ln_1.weight.dtype))
            out = out + block.ls_2(block.mlp(block.ln_2(out)))
            return project(self._visual, out)[0].cpu()
        vit = self._visual.trunk
        pooled = (weights / weights.sum(1, keepdim=True) @ values).transpose(0, 1).flatten(1)
        out = vit.attn_pool.proj(pooled.to(self.model.dtype))  # without the head's MLP, as they do
        embeddings: Tensor = self._visual.head(vit.head(vit.fc_norm(out)))
        return embeddings.float().cpu()
