"""Attention layers of any tower: their inputs, and what their maps are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import torch
import torch.nn.functional as functional
from torch import Tensor

from ...base.errors import ModelError
from ...base.oom_fallback import is_out_of_memory

_AT_ONCE: Final = 8  # embeddings for which autograd holds the tokens of a block


@dataclass(frozen=True, slots=True)
class AttentionInputs:
    """Tokens that enter an attention layer, and its weights; their products on demand."""

    tokens: Tensor  # After the layer's first LayerNorm
    weight: Tensor  # Weights of queries, keys and values, stacked
    bias: Tensor | None
    num_heads: int

    @classmethod
    def of(cls, block: Any, tokens: Tensor) -> AttentionInputs:
        """Return those of an open_clip block; tokens (n, d) after its first LayerNorm."""
        attn = block.attn
        return cls(tokens, attn.in_proj_weight, attn.in_proj_bias, attn.num_heads)

    def queries(self) -> Tensor:
        """Compute the query vectors (h, n, d / h)."""
        return self._project(0)

    def keys(self) -> Tensor:
        """Compute the key vectors (h, n, d / h)."""
        return self._project(1)

    def values(self) -> Tensor:
        """Compute the value vectors (h, n, d / h)."""
        return self._project(2)

    def _project(self, part: int) -> Tensor:
        width = self.tokens.shape[1]
        rows = slice(part * width, (part + 1) * width)
        weight = self.weight[rows].detach().to(self.tokens)
        if self.bias is None:
            bias = None
        else:
            bias = self.bias[rows].detach().to(self.tokens)
        projected = functional.linear(self.tokens, weight, bias)
        return projected.view(-1, self.num_heads, width // self.num_heads).transpose(0, 1)


def attention(queries: Tensor, keys: Tensor) -> Tensor:
    """Compute softmax attention (..., q, n) of queries (..., q, w) to keys (..., n, w)."""
    scores = queries @ keys.transpose(-1, -2) / queries.shape[-1] ** 0.5
    return torch.softmax(scores, dim=-1)


def rollout(layers: Iterable[Tensor], patches: int) -> Tensor:
    """Compute the relevance (patches,) of the patches for [CLS], or for all patches without it.

    Attention rollout (arXiv 2005.00928) is the first row of the product of all ``(mean over heads +
    identity) / 2``, or the mean of all rows. ``layers`` are the attentions (h, n, n) in the model's
    order; the last ``patches`` tokens belong to the image, and [CLS] is the first of the others.
    """
    flow: Tensor | None = None
    for weights in layers:
        mean = weights.mean(0)
        step = (mean + torch.eye(len(mean)).to(mean)) / 2
        flow = step if flow is None else step @ flow
    assert flow is not None
    before = len(flow) - patches
    return (flow[0] if before else flow.mean(0))[before:]


class ProjectionRoute(Protocol):
    """A linear map from embeddings to the vectors p that attention gradients are products of."""

    name: str
    num_queries: int
    numbers: int
    """Numbers that it holds for each embedding while a GPU projects a group."""

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, h * w)."""

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from the gradient (M, q, h * w) of p."""


@dataclass(slots=True)
class AttentionLayer:
    """An explained attention; the gradient of the score is ``<p_i, v_j>`` per head."""

    route: ProjectionRoute  # Maps embeddings to the p of its query tokens
    values: Tensor  # Value vectors of all tokens
    queries: Tensor  # The attention is computed from them head by head; (h, n, n) is never held
    keys: Tensor
    prefix: int = 1  # Number of first tokens ([CLS], registers) that are not places on the map
    pooling: bool = False  # It pools: its one query is not one of the tokens
    p: Tensor = field(init=False)

    def weights(self, head: int) -> Tensor:
        """Return the attention (q, n) of one head, divided by the number of heads."""
        return attention(self.queries[head], self.keys[head]) / len(self.values)

    def evaluate(self, embeddings: Tensor) -> None:
        """Compute p of embeddings (M, e) and store it."""
        width = self.values.shape[0] * self.values.shape[2]
        self.p = embeddings.new_empty(len(embeddings), self.route.num_queries, width)
        self.route.project(embeddings, self.p)

    def gradients(self) -> Iterator[Tensor]:
        """Yield the attention gradients (M, q, n) of the stored p, head by head."""
        width = self.values.shape[2]
        for head, values in enumerate(self.values):
            yield self.p[:, :, head * width : (head + 1) * width] @ values.T


class AutogradRoute:
    """p by autograd, for layers that process tokens independently after the attention.

    The vector-Jacobian product of the rest of the layer is linear in the vector. Its transpose is
    the derivative of that product, in a graph that lives as long as the route.

    The attention's ``output`` (1, h, n, w) is a leaf that requires gradients; ``after`` (1, n, d)
    are the tokens after the layer; ``jacobian`` (e, d) is that of the score's feature with respect
    to the mean token, divided by n. The first ``queries`` tokens are projected to (default: all).
    """

    name = "autograd"

    def __init__(
        self, output: Tensor, after: Tensor, jacobian: Tensor, queries: int | None = None
    ) -> None:
        self._output = output
        self._after = after
        self._jacobian = jacobian
        if queries is None:
            self.num_queries = output.shape[2]
        else:
            self.num_queries = queries
        self.numbers = 0  # it takes a few at a time
        with torch.enable_grad():
            self._seed = torch.zeros_like(after).requires_grad_()
            (self._product,) = torch.autograd.grad(after, output, self._seed, create_graph=True)

    def first(self, queries: int) -> AutogradRoute:
        """Return the route to the p of the first tokens."""
        return AutogradRoute(self._output, self._after, self._jacobian, queries)

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """As in `ProjectionRoute`."""
        seeds = (embeddings @ self._jacobian)[:, None, None].expand(-1, *self._after.shape)
        for seed, p in zip(torch.split(seeds, _AT_ONCE), torch.split(out, _AT_ONCE), strict=True):
            vectors = _pull_back(self._after, self._output, seed)[:, 0]
            p.copy_(vectors.transpose(1, 2).flatten(2)[:, : self.num_queries])

    def vjp(self, grad: Tensor) -> Tensor:
        """As in `ProjectionRoute`."""
        _, heads, tokens, width = self._output.shape
        whole = functional.pad(grad, (0, 0, 0, tokens - self.num_queries))
        vectors = whole.view(len(grad), 1, tokens, heads, width).transpose(2, 3)
        rows = []
        for part in torch.split(vectors, _AT_ONCE):
            rows.append(_pull_back(self._product, self._seed, part).sum((1, 2)))
        return torch.cat(rows) @ self._jacobian.T


def _pull_back(result: Tensor, leaf: Tensor, vectors: Tensor) -> Tensor:
    """Return the vector-Jacobian products of a batch of vectors; the graph stays."""
    try:
        (products,) = torch.autograd.grad(
            result, leaf, vectors, retain_graph=True, is_grads_batched=True
        )
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise ModelError(
            "The model's weights were converted, moved or changed after the image was set; call "
            f"set_image again ({error})."
        ) from error
    return products
