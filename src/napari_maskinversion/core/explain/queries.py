"""Two ways to the query vectors p of an embedding, each with its hand-written backward.

p is linear in the embedding (see `LayerConstants`), so its backward is the same product transposed.
Both work in buffers that they make once and use again in every step.
"""

from __future__ import annotations

from collections.abc import Generator

import torch
from torch import Tensor

from ..encoding import LayerConstants

# Rows of a product that keep its operands in a processor's cache; a GPU likes them long.
_CPU_ROWS = 1024


def rows_at_once(device: torch.device) -> int:
    """How many rows of a matrix product to work on before their results are used."""
    return _CPU_ROWS if device.type == "cpu" else 1 << 16


class DirectRoute:
    """p evaluated from the layer's weights, for any number of embeddings."""

    def __init__(self, constants: LayerConstants) -> None:
        self._c = constants
        rows, hidden = constants.slope.shape
        self.num_queries = rows
        self.block = max(1, rows_at_once(constants.slope.device) // rows)
        self._hidden = constants.slope.new_empty(0, rows, hidden)
        self._product = constants.slope.new_empty(0, rows, len(constants.out))

    def queries(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        c = self._c
        for start in range(0, len(embeddings), self.block):
            u = embeddings[start : start + self.block] @ c.jacobian
            p = out[start : start + len(u)]
            hidden = u @ c.down
            torch.mul((hidden @ c.bend.T)[:, :, None], c.offset, out=p)
            torch.sub((u @ c.out)[:, None], p, out=p)
            # The factor of each mask goes to the few rows, so that all masks share one product.
            bent = self._buffers(len(u))[0]
            torch.mul(c.slope, hidden[:, None], out=bent)
            p.flatten(0, 1).addmm_(bent.flatten(0, 1), c.mixed)

    def pull_back(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) of the embeddings from the gradient (M, q, d) of p."""
        c = self._c
        found = grad.new_empty(len(grad), len(c.jacobian))
        for start in range(0, len(grad), self.block):
            part = grad[start : start + self.block]
            bent, product = self._buffers(len(part))
            torch.mm(part.flatten(0, 1), c.mixed.T, out=bent.flatten(0, 1))
            hidden = bent.mul_(c.slope).sum(1)
            along = torch.mul(part, c.offset, out=product).sum(-1)
            hidden.addmm_(along, c.bend, alpha=-1)
            u = part.sum(1) @ c.out.T + hidden @ c.down.T
            torch.mm(u, c.jacobian.T, out=found[start : start + len(part)])
        return found

    def _buffers(self, masks: int) -> tuple[Tensor, Tensor]:
        if len(self._hidden) < masks:
            self._hidden = self._hidden.new_empty(masks, *self._hidden.shape[1:])
            self._product = self._product.new_empty(masks, *self._product.shape[1:])
        return self._hidden[:masks], self._product[:masks]


class DecomposedRoute:
    """p as a product with its matrix (e, q * d), made once for an image."""

    def __init__(self, matrix: Tensor, num_queries: int) -> None:
        self._matrix = matrix
        self.num_queries = num_queries

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self._matrix.numel() * self._matrix.element_size()

    def queries(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        torch.mm(embeddings, self._matrix, out=out.flatten(1))

    def pull_back(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) of the embeddings from the gradient (M, q, d) of p."""
        return grad.flatten(1) @ self._matrix.T

    @staticmethod
    def build(constants: LayerConstants, rows: int) -> Generator[None, None, DecomposedRoute]:
        """Evaluate the direct formula once per joint dimension; yields between groups of ``rows``.

        ``constants`` may be those of some query tokens only; the route then gives these.
        """
        direct = DirectRoute(constants)
        dims, queries, width = len(constants.jacobian), len(constants.slope), len(constants.out)
        matrix = constants.slope.new_empty(dims, queries * width)
        basis = torch.eye(dims, dtype=matrix.dtype, device=matrix.device)
        for start in range(0, dims, rows):
            chosen = slice(start, min(start + rows, dims))
            direct.queries(basis[chosen], matrix[chosen].view(-1, queries, width))
            yield
        return DecomposedRoute(matrix, queries)

    def of(self, rows: Tensor) -> DecomposedRoute:
        """Give the route to the p of some of its tokens only; copies their part."""
        width = self._matrix.shape[1] // self.num_queries
        part = self._matrix.view(len(self._matrix), -1, width)[:, rows]
        return DecomposedRoute(part.flatten(1), len(rows))


Route = DirectRoute | DecomposedRoute
