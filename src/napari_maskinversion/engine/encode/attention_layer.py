"""One explained attention of any tower, as the general maps see it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from .attention import attention


class ProjectionRoute(Protocol):
    """A linear way from embeddings to the vectors p that attention gradients are made of."""

    num_queries: int

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, h * w)."""

    def vjp(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) of the embeddings from the gradient (M, q, h * w) of p."""


@dataclass(slots=True)
class AttentionLayer:
    """The gradient of the score with respect to this attention is ``<p_i, v_j>`` per head.

    Attributes
    ----------
    route : ProjectionRoute
        To the p of its query tokens.
    values : (h, n, w)
        Value vectors of all tokens.
    queries, keys : (h, q, w), (h, n, w)
        What its attention is made of: head by head, so that no (h, n, n) is held.
    prefix : int
        So many first tokens ([CLS], registers) are no place on the map.
    pooling : bool
        Its one query is none of the tokens.
    """

    route: ProjectionRoute
    values: Tensor
    queries: Tensor
    keys: Tensor
    prefix: int = 1
    pooling: bool = False
    p: Tensor = field(init=False)

    def weights(self, head: int) -> Tensor:
        """Attention (q, n) of one head, over the number of heads."""
        return attention(self.queries[head], self.keys[head]) / len(self.values)

    def evaluate(self, embeddings: Tensor) -> None:
        """Find p of embeddings (M, e) and keep it."""
        width = self.values.shape[0] * self.values.shape[2]
        self.p = embeddings.new_empty(len(embeddings), self.route.num_queries, width)
        self.route.project(embeddings, self.p)

    def gradients(self) -> Iterator[Tensor]:
        """Yield the attention gradients (M, q, n) of the p that is kept, head by head."""
        width = self.values.shape[2]
        for head, values in enumerate(self.values):
            yield self.p[:, :, head * width : (head + 1) * width] @ values.T


class AutogradRoute:
    """p of a layer whose tokens each go their own way after the attention, by autograd.

    The vector-Jacobian product of that way is linear in the vector; its transpose is the derivative
    of the product, taken in a graph that is kept as long as the route.

    Parameters
    ----------
    output : Tensor, shape (1, h, n, w)
        The attention's output, a leaf that requires gradients.
    after : Tensor, shape (1, n, d)
        The tokens after the layer.
    jacobian : Tensor, shape (e, d)
        Of the score's feature in the mean token, over n.
    queries : int, optional
        Only so many first tokens are asked for.
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
        """Give the route to the p of the first tokens only."""
        return AutogradRoute(self._output, self._after, self._jacobian, queries)

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """As in `ProjectionRoute`."""
        for one, place in zip(embeddings @ self._jacobian, out, strict=True):
            seed = one.expand_as(self._after)
            (found,) = torch.autograd.grad(self._after, self._output, seed, retain_graph=True)
            place.copy_(found[0].transpose(0, 1).flatten(1)[: self.num_queries])

    def vjp(self, grad: Tensor) -> Tensor:
        """As in `ProjectionRoute`."""
        _, heads, tokens, width = self._output.shape
        found = grad.new_empty(len(grad), self._jacobian.shape[1])
        for one, place in zip(grad, found, strict=True):
            whole = one.new_zeros(tokens, heads * width)
            whole[: self.num_queries] = one
            back = whole.view(tokens, heads, width).transpose(0, 1)[None]
            (pulled,) = torch.autograd.grad(self._product, self._seed, back, retain_graph=True)
            place.copy_(pulled.sum((0, 1)))
        return found @ self._jacobian.T
