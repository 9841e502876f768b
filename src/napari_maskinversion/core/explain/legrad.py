"""LeGrad maps in closed form, with a backward pass derived by hand.

The map of an embedding (arXiv 2404.03214) is the positive gradient of its score with respect to
the attention, averaged over heads and query tokens. The gradient is ``<p_i, v_j>`` per head, p
linear in the embedding (see `LayerConstants`), so one image needs no second-order autograd and
nothing of shape (masks, h, n, n) is kept: masks are worked on in groups that fit the memory given.
"""

from __future__ import annotations

from collections.abc import Generator

import torch
from torch import Tensor

from ..encoding import ImageEncoding, LayerConstants


class DirectRoute:
    """p evaluated from the layer's weights, for any number of embeddings."""

    def __init__(self, constants: LayerConstants) -> None:
        self._c = constants

    def queries(self, embeddings: Tensor) -> Tensor:
        """p of embeddings (M, e): (M, n, d)."""
        c = self._c
        u = embeddings @ c.jacobian
        hidden = u @ c.down
        p = torch.matmul(c.slope, hidden[:, :, None] * c.mixed)
        p -= (hidden @ c.bend.T)[:, :, None] * c.offset
        p += (u @ c.out)[:, None]
        return p

    def pull_back(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) of the embeddings from the gradient (M, n, d) of p."""
        c = self._c
        hidden = torch.einsum("mkd,kd->mk", torch.matmul(c.slope.T, grad), c.mixed)
        hidden -= torch.einsum("mnd,nd->mn", grad, c.offset) @ c.bend
        u = grad.sum(1) @ c.out.T + hidden @ c.down.T
        return u @ c.jacobian.T


class DecomposedRoute:
    """p as a product with its matrix (e, n * d), made once for an image."""

    def __init__(self, matrix: Tensor, num_tokens: int) -> None:
        self._matrix = matrix
        self._num_tokens = num_tokens

    def queries(self, embeddings: Tensor) -> Tensor:
        """p of embeddings (M, e): (M, n, d)."""
        return (embeddings @ self._matrix).reshape(len(embeddings), self._num_tokens, -1)

    def pull_back(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) of the embeddings from the gradient (M, n, d) of p."""
        return grad.reshape(len(grad), -1) @ self._matrix.T

    @staticmethod
    def build(
        constants: LayerConstants, rows_at_once: int
    ) -> Generator[None, None, DecomposedRoute]:
        """Evaluate the direct formula once per joint dimension; yields between groups of rows."""
        direct = DirectRoute(constants)
        dims, tokens, width = len(constants.jacobian), len(constants.slope), len(constants.out)
        matrix = constants.slope.new_empty(dims, tokens * width)
        basis = torch.eye(dims, dtype=matrix.dtype, device=matrix.device)
        for start in range(0, dims, rows_at_once):
            rows = basis[start : start + rows_at_once]
            matrix[start : start + len(rows)] = direct.queries(rows).flatten(1)
            yield
        return DecomposedRoute(matrix, tokens)


Route = DirectRoute | DecomposedRoute
# Per layer: p split into heads, and its attention gradient where that was kept.
Kept = list[tuple[Tensor, Tensor | None]]


class LeGrad:
    """Maps of embeddings on one image, and the gradient of anything made of them.

    Parameters
    ----------
    encoding : ImageEncoding
    routes : sequence of Route
        One per explained layer of ``encoding``.
    memory_bytes : int
        What the attention gradients of one group may take.
    """

    def __init__(self, encoding: ImageEncoding, routes: list[Route], memory_bytes: int) -> None:
        self._values = [layer.values for layer in encoding.layers]
        self._routes = routes
        heads, tokens, head_width = self._values[0].shape
        per_mask = heads * tokens * tokens
        # p, its gradient and one (m, d) product of the direct route stand beside it.
        extra = (2 * tokens + encoding.layers[0].mixed.shape[0]) * heads * head_width
        per_mask = (per_mask + extra) * self._values[0].element_size() * len(self._values)
        self.group_size = max(1, memory_bytes // per_mask)
        self._heads_at_once = heads
        if memory_bytes < per_mask:
            self._heads_at_once = max(1, heads * memory_bytes // per_mask)

    def forward(self, embeddings: Tensor) -> tuple[Tensor, Kept]:
        """Token maps (M, n - 1) of one group (M, e), summed over layers, not normalised.

        Also gives what `pull_back` needs, to be used once.
        """
        kept: Kept = []
        total = None
        for values, route in zip(self._values, self._routes, strict=True):
            queries = self._split(route.queries(embeddings), values)
            part = torch.zeros_like(queries[:, 0, :, 0])
            gradient: Tensor | None = None
            for heads in self._head_groups(len(values)):
                gradient = torch.matmul(queries[:, heads], values[heads].transpose(-1, -2))
                part += gradient.relu_().sum((1, 2))
            # Kept only where it is the whole of it; made again otherwise.
            kept.append((queries, gradient if self._heads_at_once == len(values) else None))
            part = part[:, 1:] / (values.shape[0] * values.shape[1])
            total = part if total is None else total + part
        assert total is not None
        return total, kept

    def pull_back(self, kept: Kept, grad: Tensor) -> Tensor:
        """Gradient (M, e) from the gradient (M, n - 1) of the maps."""
        result = None
        for values, route, (queries, gradient) in zip(
            self._values, self._routes, kept, strict=True
        ):
            heads_in_all, tokens, _ = values.shape
            columns = torch.nn.functional.pad(grad, (1, 0)) / (heads_in_all * tokens)
            pulled = torch.empty_like(queries)
            for heads in self._head_groups(heads_in_all):
                if gradient is None:
                    part = torch.matmul(queries[:, heads], values[heads].transpose(-1, -2))
                else:
                    part = gradient
                # The ReLU passes the gradient where it was positive.
                part = part.gt_(0)
                weighted = values[heads] * columns[:, None, :, None]
                pulled[:, heads] = torch.matmul(part, weighted)
            joined = pulled.transpose(1, 2).flatten(2)
            step = route.pull_back(joined)
            result = step if result is None else result + step
        assert result is not None
        return result

    def _head_groups(self, heads: int) -> list[slice]:
        size = self._heads_at_once
        return [slice(i, min(i + size, heads)) for i in range(0, heads, size)]

    @staticmethod
    def _split(queries: Tensor, values: Tensor) -> Tensor:
        heads, tokens, head_width = values.shape
        return queries.reshape(-1, tokens, heads, head_width).transpose(1, 2)
