"""Methods whose last block is another attention alone, without its residual and MLP."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from ..compute.onednn_layers import forward_only
from ..encode.attention import AttentionInputs, attention
from ..encode.token_grid import TokenGrid
from .dense import LastBlockMethod, run_blocks

SPREAD: Final = 5.0  # tokens, of NACLIP's neighbourhood
MIDDLE: Final = (0.5, 0.75)  # of the blocks, where ResCLIP looks at attention: four of twelve
SHARE: Final = 0.5  # of that attention


class ClearClip(LastBlockMethod):
    """ClearCLIP (arXiv 2407.12442): tokens attend to tokens with like queries."""

    title, residual = "ClearCLIP", False

    def attend(self, inputs: AttentionInputs, grid: TokenGrid) -> Tensor:
        """Attend by queries."""
        queries = inputs.queries()
        return attention(queries, queries) @ inputs.values()


class NaClip(LastBlockMethod):
    """NACLIP (arXiv 2404.08181): tokens attend to near tokens with like keys."""

    title, residual = "NACLIP", False

    def attend(self, inputs: AttentionInputs, grid: TokenGrid) -> Tensor:
        """Attend by keys and distance."""
        return self.weights(inputs, grid) @ inputs.values()

    def weights(self, inputs: AttentionInputs, grid: TokenGrid) -> Tensor:
        """Return the attention (h, n, n)."""
        keys = inputs.keys()
        scores = keys @ keys.transpose(1, 2) / keys.shape[2] ** 0.5
        # Rows and columns of the grid one by one: a Gaussian is their product.
        along = [torch.arange(length, device=keys.device, dtype=torch.float32) for length in grid]
        bells = [torch.exp(-((a[:, None] - a) ** 2) / (2 * SPREAD**2)) for a in along]
        scores[:, 1:, 1:] += torch.kron(bells[0], bells[1]).to(scores.dtype)  # not of [CLS]
        return torch.softmax(scores, -1)


class ResClip(NaClip):
    """ResCLIP (arXiv 2411.15851) on NACLIP: half of the attention is that of middle blocks.

    Which blocks, their weight and the mean over heads are our reading of the paper. Its second step
    is left out: it needs the words, which an embedding does not know.
    """

    title = "ResCLIP"

    @forward_only()
    def embed_tokens(self, x: Tensor, grid: TokenGrid) -> Tensor:
        """Add the attention of the middle blocks, averaged over blocks and heads."""
        blocks = self.visual.transformer.resblocks
        stop = min(round(MIDDLE[1] * len(blocks)), len(blocks) - 1)
        first = min(round(MIDDLE[0] * len(blocks)), stop - 1)
        x = run_blocks(self.visual, x, stop=first)
        seen = []
        for block in blocks[first:stop]:
            inputs = AttentionInputs.of(block, block.ln_1(x)[0])
            seen.append(attention(inputs.queries(), inputs.keys()).mean(0))
            x = block(x)
        for block in blocks[stop:-1]:
            x = block(x)
        middle = torch.stack(seen).mean(0)

        def attend(inputs: AttentionInputs) -> Tensor:
            weights = (1 - SHARE) * self.weights(inputs, grid) + SHARE * middle
            return weights @ inputs.values()

        return self.embed_last(x, attend)
