"""What open_clip's own vision transformers have in common, however they pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ...compute.onednn_layers import forward_only
from ...encode.attention import AttentionInputs, attention
from ...encode.image_encoding import check_image, embed


class OpenClipVit:
    """Sizes and attention of a tower; its encoding is the kind's own.

    Parameters
    ----------
    visual : open_clip VisionTransformer
    """

    def __init__(self, visual: Any) -> None:
        self._visual = visual
        self.patch_size = int(visual.conv1.kernel_size[0])
        self.native_resolution = int(visual.grid_size[0]) * self.patch_size
        self.embed_dim = int(visual.proj.shape[1])
        blocks = visual.transformer.resblocks
        self.num_layers, self.num_heads = len(blocks), int(blocks[0].attn.num_heads)

    @property
    def weight(self) -> Tensor:
        """As in `ImageTower`."""
        weight: Tensor = self._visual.conv1.weight
        return weight

    def attentions(self, image: Tensor) -> Iterator[Tensor]:
        """As in `ImageTower`."""
        grid = check_image(image, (self.patch_size, self.patch_size))
        with torch.no_grad():
            tokens = embed(self._visual, image, grid)
        for block in self._visual.transformer.resblocks:
            with forward_only(tokens.device):
                attn = block.attn
                given = AttentionInputs(
                    block.ln_1(tokens)[0], attn.in_proj_weight, attn.in_proj_bias, attn.num_heads
                )
                found = attention(given.queries(), given.keys()).float()
            yield found
            with forward_only(tokens.device):
                tokens = block(tokens)
