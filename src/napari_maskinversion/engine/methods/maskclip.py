"""MaskCLIP: the last block's attention replaced by each token's own value."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from ..models.backbone import Backbone
from .dense import DenseMethod
from .vit_blocks import project, queries_keys_values, run_blocks

Reading = Literal["block", "values"]


class MaskClip(DenseMethod):
    """Unit embeddings of value tokens.

    Parameters
    ----------
    model : Backbone
    reading : {"block", "values"}
        Add the values to the tokens and run the block's MLP, or project the values alone.
    resolution, keep_aspect
        As in `RegionMethod`.
    """

    title = "MaskCLIP"

    def __init__(self, model: Backbone, *, reading: Reading = "block", **common: Any) -> None:
        super().__init__(model, **common)
        self.reading = reading

    @torch.no_grad()
    def embed_tokens(self, x: Tensor) -> Tensor:
        """Project the last block's values."""
        x = run_blocks(self.visual, x, stop=-1)
        block = self.visual.transformer.resblocks[-1]
        values = queries_keys_values(block, block.ln_1(x))[2].transpose(1, 2).flatten(2)
        out = block.ls_1(block.attn.out_proj(values))
        if self.reading == "block":
            out = x + out
            out = out + block.ls_2(block.mlp(block.ln_2(out)))
        return F.normalize(project(self.visual, out), dim=-1)
