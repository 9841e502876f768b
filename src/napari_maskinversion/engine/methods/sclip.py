"""SCLIP: the last block attends by likeness of queries and of keys."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .dense import DenseMethod
from .vit_blocks import alike, attended, heads, into_joint_space, through


class Sclip(DenseMethod):
    """Attention is the sum (not the mean) of query-query and key-key attention."""

    title = "SCLIP"

    @torch.no_grad()
    def tokens(self, x: Tensor) -> Tensor:
        """Run the last block with the other attention."""
        x = through(self.visual, x, stop=-1)
        block = self.visual.transformer.resblocks[-1]
        queries, keys, values = heads(block, block.ln_1(x))
        x = x + attended(block, alike(queries) + alike(keys), values)
        x = x + block.ls_2(block.mlp(block.ln_2(x)))
        return F.normalize(into_joint_space(self.visual, x), dim=-1)
