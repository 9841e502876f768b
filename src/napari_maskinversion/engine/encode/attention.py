"""Inputs of an attention layer, for maps that need more than its values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """Tokens that enter an attention layer, and its weights; queries and keys on demand.

    Attributes
    ----------
    tokens : (n, d)
        After the layer's first LayerNorm.
    weight : (3 d, d)
        Weights of queries, keys and values, stacked.
    bias : (3 d,) or None
    num_heads : int
    """

    tokens: Tensor
    weight: Tensor
    bias: Tensor | None
    num_heads: int

    def queries(self) -> Tensor:
        """Compute the query vectors (h, n, d / h)."""
        return self._project(0)

    def keys(self) -> Tensor:
        """Compute the key vectors (h, n, d / h)."""
        return self._project(1)

    def _project(self, part: int) -> Tensor:
        width = self.tokens.shape[1]
        rows = slice(part * width, (part + 1) * width)
        weight = self.weight[rows].detach().to(self.tokens)
        bias = None if self.bias is None else self.bias[rows].detach().to(self.tokens)
        projected = functional.linear(self.tokens, weight, bias)
        return projected.view(-1, self.num_heads, width // self.num_heads).transpose(0, 1)


def attention(queries: Tensor, keys: Tensor) -> Tensor:
    """Compute softmax attention (..., q, n) of queries (..., q, w) to keys (..., n, w)."""
    scores = queries @ keys.transpose(-1, -2) / queries.shape[-1] ** 0.5
    return torch.softmax(scores, dim=-1)
