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


def at_least(buffer: Tensor, count: int) -> Tensor:
    """The buffer, or a new one if it has fewer than ``count`` rows."""
    return buffer if len(buffer) >= count else buffer.new_empty(count, *buffer.shape[1:])


class DirectRoute:
    """p evaluated from the layer's weights, for any number of embeddings."""

    def __init__(self, constants: LayerConstants) -> None:
        self._c = constants
        rows, hidden = constants.slope.shape
        self.num_queries, width = constants.offset.shape
        self.block = max(1, rows_at_once(constants.slope.device) // rows)
        self._hidden = constants.slope.new_empty(0, rows, hidden)
        self._product = constants.slope.new_empty(0, self.num_queries, width)
        # The products of rows of slopes, before they are mixed.
        self._rows = constants.slope.new_empty(0, rows, width)

    def queries(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        c = self._c
        for start in range(0, len(embeddings), self.block):
            some = embeddings[start : start + self.block]
            u = some @ c.jacobian
            p = out[start : start + len(u)]
            hidden = u @ c.down
            torch.mul((hidden @ c.bend.T)[:, :, None], c.offset, out=p)
            torch.sub((u @ c.out)[:, None], p, out=p)
            if c.mixing is None:
                p.flatten(0, 1).addmm_(self._bent(hidden).flatten(0, 1), c.mixed)
                continue
            rows = self._rows = at_least(self._rows, len(u))
            self.mixed_rows(some, hidden, rows[: len(u)])
            for one, mine in zip(p, rows, strict=False):
                one.addmm_(c.mixing, mine)

    def mixed_rows(self, embeddings: Tensor, hidden: Tensor, out: Tensor) -> None:
        """Write the products (M, r, d) that p is mixed of; ``hidden`` (M, m) is ``u W2``."""
        torch.mm(self._bent(hidden).flatten(0, 1), self._c.mixed, out=out.flatten(0, 1))

    def pull_back(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) of the embeddings from the gradient (M, q, d) of p."""
        c = self._c
        found = grad.new_empty(len(grad), len(c.jacobian))
        for start in range(0, len(grad), self.block):
            part = grad[start : start + self.block]
            rows = part
            if c.mixing is not None:
                self._rows = at_least(self._rows, len(part))
                rows = self._rows[: len(part)]
                for one, mine in zip(part, rows, strict=True):
                    torch.mm(c.mixing.T, one, out=mine)
            hidden, direct = self.pull_rows(rows)
            self._product = at_least(self._product, len(part))
            along = torch.mul(part, c.offset, out=self._product[: len(part)]).sum(-1)
            hidden.addmm_(along, c.bend, alpha=-1)
            u = part.sum(1) @ c.out.T + hidden @ c.down.T
            torch.mm(u, c.jacobian.T, out=found[start : start + len(part)])
            if direct is not None:
                found[start : start + len(part)] += direct
        return found

    def pull_rows(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Gradients (M, m) of ``hidden`` and (M, e) beside it, from that of `mixed_rows`."""
        self._hidden = at_least(self._hidden, len(rows))
        bent = self._hidden[: len(rows)]
        torch.mm(rows.flatten(0, 1), self._c.mixed.T, out=bent.flatten(0, 1))
        return bent.mul_(self._c.slope).sum(1), None

    def _bent(self, hidden: Tensor) -> Tensor:
        # The factor of each mask goes to the few rows, so that all masks share one product.
        self._hidden = at_least(self._hidden, len(hidden))
        return torch.mul(self._c.slope, hidden[:, None], out=self._hidden[: len(hidden)])


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

    def of(self, rows: Tensor) -> DecomposedRoute:
        """Give the route to the p of some of its tokens only; copies their part."""
        width = self._matrix.shape[1] // self.num_queries
        part = self._matrix.view(len(self._matrix), -1, width)[:, rows]
        return DecomposedRoute(part.flatten(1), len(rows))


class MixedRoute(DirectRoute):
    """p mixed of a few rows, these as a product with their matrix (e, r * d), made once."""

    def __init__(self, constants: LayerConstants, matrix: Tensor) -> None:
        super().__init__(constants)
        self._matrix = matrix

    @property
    def nbytes(self) -> int:
        """Memory that its matrix takes."""
        return self._matrix.numel() * self._matrix.element_size()

    def mixed_rows(self, embeddings: Tensor, hidden: Tensor, out: Tensor) -> None:
        """As in `DirectRoute`."""
        torch.mm(embeddings, self._matrix, out=out.flatten(1))

    def pull_rows(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """As in `DirectRoute`."""
        return rows.new_zeros(len(rows), self._c.slope.shape[1]), rows.flatten(1) @ self._matrix.T


def decompose(
    constants: LayerConstants, rows: int
) -> Generator[None, None, DecomposedRoute | MixedRoute]:
    """Evaluate the direct formula once per joint dimension; yields between groups of ``rows``.

    ``constants`` may be those of some query tokens only; the route then gives these.
    """
    direct = DirectRoute(constants)
    dims, width = len(constants.jacobian), len(constants.out)
    queries = len(constants.offset if constants.mixing is None else constants.slope)
    matrix = constants.slope.new_empty(dims, queries * width)
    basis = torch.eye(dims, dtype=matrix.dtype, device=matrix.device)
    for start in range(0, dims, rows):
        chosen = slice(start, min(start + rows, dims))
        out = matrix[chosen].view(-1, queries, width)
        if constants.mixing is None:
            direct.queries(basis[chosen], out)
        else:
            hidden = basis[chosen] @ constants.jacobian @ constants.down
            direct.mixed_rows(basis[chosen], hidden, out)
        yield
    if constants.mixing is None:
        return DecomposedRoute(matrix, queries)
    return MixedRoute(constants, matrix)


Route = DirectRoute | DecomposedRoute | MixedRoute
