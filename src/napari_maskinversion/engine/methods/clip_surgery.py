"""CLIPSurgery: a second path through the last blocks, with value-value attention and no MLP."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from ..compute.onednn_layers import forward_only
from .dense import DenseMethod
from .vit_blocks import (
    attention_update,
    project,
    queries_keys_values,
    run_blocks,
    self_similarity,
)

BLOCKS: Final = 6


class ClipSurgery(DenseMethod):
    """The new path sums value-value attention; the original path stays as it is."""

    title = "CLIPSurgery"

    @forward_only()
    def embed_tokens(self, x: Tensor) -> Tensor:
        """Follow both paths."""
        blocks = self.visual.transformer.resblocks
        last = min(BLOCKS, len(blocks))
        x = run_blocks(self.visual, x, stop=len(blocks) - last)
        surgery = x
        for block in blocks[-last:]:
            values = queries_keys_values(block, block.ln_1(x))[2]
            surgery = surgery + attention_update(block, self_similarity(values), values)
            x = block(x)
        return project(self.visual, surgery)
