"""One explained attention layer of any tower."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from .attention import attention


class ProjectionRoute(Protocol):
    """A linear map from embeddings to the vectors p that attention gradients are products of."""

    num_queries: int

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, h * w)."""

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from the gradient (M, q, h * w) of p."""


@dataclass(slots=True)
class AttentionLayer:
    """An explained attention; the gradient of the score is ``<p_i, v_j>`` per head.

    Attributes
    ----------
    route : ProjectionRoute
        Maps embeddings to the p of its query tokens.
    values : (h, n, w)
        Value vectors of all tokens.
    queries, keys : (h, q, w), (h, n, w)
        The attention is computed from them head by head; (h, n, n) is never held.
    prefix : int
        Number of first tokens ([CLS], registers) that are not places on the map.
    pooling : bool
        It pools: its one query is not one of the tokens.
    """

    route: ProjectionRoute
    values: Tensor
    queries: Tensor
    keys: Tensor
    prefix: int = 1
    pooling: bool = False
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

    def __init__(
        self, output: Tensor, after: Tensor, jacobian: Tensor, queries: int | None = None
    ) -> None:
        self._output, self._after, self._jacobian = output, after, jacobian
        self.num_queries = output.shape[2] if queries is None else queries
        with torch.enable_grad():
            self._seed = torch.zeros_like(after).requires_grad_()
            (self._product,) = torch.autograd.grad(after, output, self._seed, create_graph=True)

    def first(self, queries: int) -> AutogradRoute:
        """Return the route to the p of the first tokens."""
        return AutogradRoute(self._output, self._after, self._jacobian, queries)

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """As in `ProjectionRoute`."""
        for gradient, p in zip(embeddings @ self._jacobian, out, strict=True):
            seed = gradient.expand_as(self._after)
            (vectors,) = torch.autograd.grad(self._after, self._output, seed, retain_graph=True)
            p.copy_(vectors[0].transpose(0, 1).flatten(1)[: self.num_queries])

    def vjp(self, grad: Tensor) -> Tensor:
        """As in `ProjectionRoute`."""
        _, heads, tokens, width = self._output.shape
        token_gradients = grad.new_empty(len(grad), self._jacobian.shape[1])
        for p_gradient, out in zip(grad, token_gradients, strict=True):
            whole = p_gradient.new_zeros(tokens, heads * width)
            whole[: self.num_queries] = p_gradient
            vector = whole.view(tokens, heads, width).transpose(0, 1)[None]
            (per_token,) = torch.autograd.grad(self._product, self._seed, vector, retain_graph=True)
            out.copy_(per_token.sum((0, 1)))
        return token_gradients @ self._jacobian.T
