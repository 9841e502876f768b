"""open_clip's own vision transformer with a class token."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ..attention import AttentionInputs, attention
from ..encoding import Tower, embed


def attentions(visual: Tower, image: Tensor) -> Iterator[Tensor]:
    """Yield the attention (h, n, n) of each block, the first one first."""
    patch_h, patch_w = visual.conv1.kernel_size
    grid = (image.shape[2] // patch_h, image.shape[3] // patch_w)
    with torch.no_grad():
        tokens = embed(visual, image, grid)
    for block in visual.transformer.resblocks:
        with torch.no_grad():
            entering = block.ln_1(tokens)[0]
            attn = block.attn
            given = AttentionInputs(
                entering, attn.in_proj_weight, attn.in_proj_bias, attn.num_heads
            )
            yield attention(given.queries().float(), given.keys().float())
            tokens = block(tokens)
