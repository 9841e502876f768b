"""CLIPSurgery: a second path through the last blocks, value-value attention and no MLP."""

from __future__ import annotations

from typing import Final

from torch import Tensor

from ..compute.onednn_layers import forward_only
from .dense import DenseMethod
from .vit_blocks import alike, attended, heads, into_joint_space, through

BLOCKS: Final = 6


class ClipSurgery(DenseMethod):
    """The new path collects what values attend to; the old one goes on as it is."""

    title = "CLIPSurgery"

    @forward_only()
    def tokens(self, x: Tensor) -> Tensor:
        """Follow both paths."""
        blocks = self.visual.transformer.resblocks
        last = min(BLOCKS, len(blocks))
        x = through(self.visual, x, stop=len(blocks) - last)
        beside = x
        for block in blocks[-last:]:
            values = heads(block, block.ln_1(x))[2]
            beside = beside + attended(block, alike(values), values)
            x = block(x)
        return into_joint_space(self.visual, beside)
