"""Methods whose last block is another attention alone, without its residual and MLP."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from ...base.errors import ModelError
from ..compute.onednn_layers import forward_only
from ..encode.attention import AttentionInputs, attention
from ..encode.token_grid import TokenGrid
from ..models.backbone import Backbone
from .dense import LastBlockMethod, run_blocks

SPREAD: Final = 5.0  # tokens, of NACLIP's neighbourhood
# Blocks whose attention ResCLIP adds, counted from 0: the same ones whatever the model's depth.
MIDDLE: Final = range(5, 9)
# Its share of the attention. The authors have 0.4 for COCO and Context59, 0.2 to 0.6 elsewhere.
SHARE: Final = 0.4
STRENGTH: Final = 2.0  # the sum is multiplied by this, so its rows add up to two


class ClearClip(LastBlockMethod):
    """ClearCLIP (arXiv 2407.12442): tokens attend to tokens with like queries."""

    title = "ClearCLIP"
    residual = False

    def attend(self, inputs: AttentionInputs, grid: TokenGrid) -> Tensor:
        """Attend by queries."""
        queries = inputs.queries()
        return attention(queries, queries) @ inputs.values()


class NaClip(LastBlockMethod):
    """NACLIP (arXiv 2404.08181): tokens attend to near tokens with like keys."""

    title = "NACLIP"
    residual = False

    def attend(self, inputs: AttentionInputs, grid: TokenGrid) -> Tensor:
        """Attend by keys and distance."""
        return self.weights(inputs, grid) @ inputs.values()

    def weights(self, inputs: AttentionInputs, grid: TokenGrid) -> Tensor:
        """Return the attention (h, n, n)."""
        keys = inputs.keys()
        scores = keys @ keys.transpose(1, 2) / keys.shape[2] ** 0.5
        # Rows and columns of the grid one by one: a Gaussian is their product.
        along = []
        for length in grid:
            along.append(torch.arange(length, device=keys.device, dtype=torch.float32))
        bells = [torch.exp(-((a[:, None] - a) ** 2) / (2 * SPREAD**2)) for a in along]
        scores[:, 1:, 1:] += torch.kron(bells[0], bells[1]).to(scores.dtype)  # not of [CLS]
        return torch.softmax(scores, -1)


class ResClip(NaClip):
    """ResCLIP (arXiv 2411.15851) on NACLIP: a part of the attention is that of middle blocks.

    Blocks, share and strength are those of the authors' code; tests compare with its numbers on
    random weights. Its second step is left out: it needs the words, which an embedding does not
    know.
    """

    title = "ResCLIP"

    def __init__(self, model: Backbone, **common: Any) -> None:
        super().__init__(model, **common)
        if model.num_layers <= MIDDLE.stop:  # the last block is NACLIP's
            raise ModelError(
                f"ResCLIP adds the attention of blocks {MIDDLE.start + 1} to {MIDDLE.stop}; "
                f"{model.name} has {model.num_layers} blocks. Choose NACLIP, which it builds on, "
                f"or a model of more than {MIDDLE.stop} blocks."
            )

    @forward_only()
    def embed_tokens(self, x: Tensor, grid: TokenGrid) -> Tensor:
        """Add the attention of the middle blocks, averaged over the blocks, head by head."""
        blocks = self.visual.transformer.resblocks
        x = run_blocks(self.visual, x, stop=MIDDLE.start)
        middle_attention: list[Tensor] = []  # of each block, (h, n, n)
        for block in blocks[MIDDLE.start : MIDDLE.stop]:
            inputs = AttentionInputs.of(block, block.ln_1(x)[0])
            middle_attention.append(attention(inputs.queries(), inputs.keys()))
            x = block(x)
        for block in blocks[MIDDLE.stop : -1]:
            x = block(x)
        middle = torch.stack(middle_attention).mean(0)

        def attend(inputs: AttentionInputs) -> Tensor:
            weights = (1 - SHARE) * self.weights(inputs, grid) + SHARE * middle
            return STRENGTH * weights @ inputs.values()

        return self.embed_last(x, attend)
