"""open_clip's own vision transformer with a class token."""

from __future__ import annotations

from collections.abc import Generator, Iterator

import torch
from torch import Tensor

from ..attention import AttentionInputs, attention
from ..config import EXPLAINERS
from ..encoding import ImageEncoding, Tower, check_layers, embed, encode_steps


class ClassTokenTower:
    """An `ImageTower`; see there.

    Parameters
    ----------
    visual : open_clip VisionTransformer
        With a class token among its tokens, whether it pools by it or by the mean of the others.
    """

    family = "class-token ViT"
    explainers = EXPLAINERS
    corrected = False
    sampled = True

    def __init__(self, visual: Tower) -> None:
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

    def encode_steps(
        self, image: Tensor, layers: int
    ) -> Generator[tuple[int, int], None, ImageEncoding]:
        """As in `ImageTower`."""
        check_layers(layers, self.num_layers)
        return encode_steps(self._visual, image, layers)

    def attentions(self, image: Tensor) -> Iterator[Tensor]:
        """As in `ImageTower`."""
        grid = (image.shape[2] // self.patch_size, image.shape[3] // self.patch_size)
        with torch.no_grad():
            tokens = embed(self._visual, image, grid)
        for block in self._visual.transformer.resblocks:
            with torch.no_grad():
                attn = block.attn
                given = AttentionInputs(
                    block.ln_1(tokens)[0], attn.in_proj_weight, attn.in_proj_bias, attn.num_heads
                )
                yield attention(given.queries(), given.keys()).float()
                tokens = block(tokens)
