"""SCLIP: tokens of the last block attend by query-query and key-key similarity."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .dense import DenseMethod
from .vit_blocks import (
    attention_update,
    project,
    queries_keys_values,
    run_blocks,
    self_similarity,
)


class Sclip(DenseMethod):
    """Attention is the sum (not the mean) of query-query and key-key attention."""

    title = "SCLIP"

    @torch.no_grad()
    def embed_tokens(self, x: Tensor) -> Tensor:
        """Run the last block with the other attention."""
        x = run_blocks(self.visual, x, stop=-1)
        block = self.visual.transformer.resblocks[-1]
        queries, keys, values = queries_keys_values(block, block.ln_1(x))
        x = x + attention_update(block, self_similarity(queries) + self_similarity(keys), values)
        x = x + block.ls_2(block.mlp(block.ln_2(x)))
        return F.normalize(project(self.visual, x), dim=-1)
