"""Two ways to the query vectors p of an embedding, each with its hand-written backward.

p is linear in the embedding (see `LayerConstants`), so its backward is the same product transposed.
Both work in buffers that they make once and use again in every step.
"""

from __future__ import annotations

import math
from collections.abc import Generator

import torch
from torch import Tensor

from ..encoding import LayerConstants

# Rows of a product that keep its operands in a processor's cache; a GPU likes them long.
_CPU_ROWS = 1024
# Numbers that a batch of products writes before they are copied to their place.
_BATCH_NUMBERS = 1 << 21


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


class _Decomposition:
    """Matrices (k, e, d) from embeddings to rows of vectors, one a row, as batched products.

    One a row instead of a single (e, k * d): a processor keeps each in its cache meanwhile, which
    takes half of the time where embeddings are few.
    """

    def __init__(self, blocks: Tensor) -> None:
        self.blocks = blocks
        self._vectors = blocks.new_empty(0)
        self._pulled = blocks.new_empty(0)

    @property
    def nbytes(self) -> int:
        """Memory that the matrices take."""
        return self.blocks.numel() * self.blocks.element_size()

    def rows(self, embeddings: Tensor, out: Tensor) -> None:
        """Write the rows of embeddings (M, e) to ``out`` (M, k, d)."""
        count, width = len(embeddings), self.blocks.shape[2]
        for some in self._groups(count * width):
            blocks = self.blocks[some]
            self._vectors, found = _piece(self._vectors, len(blocks), count, width)
            torch.bmm(embeddings.expand(len(blocks), -1, -1), blocks, out=found)
            out[:, some] = found.transpose(0, 1)

    def pull_back(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) of the embeddings from that of the rows (M, k, d)."""
        count, joint = len(grad), self.blocks.shape[1]
        total = grad.new_zeros(count, joint)
        for some in self._groups(count * joint):
            blocks = self.blocks[some].transpose(1, 2)
            self._pulled, found = _piece(self._pulled, len(blocks), count, joint)
            torch.bmm(grad[:, some].transpose(0, 1), blocks, out=found)
            total += found.sum(0)
        return total

    def _groups(self, numbers: int) -> list[slice]:
        """Rows to work on at once, each with so many numbers."""
        count = len(self.blocks)
        step = max(1, _BATCH_NUMBERS // numbers)
        return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _piece(buffer: Tensor, *shape: int) -> tuple[Tensor, Tensor]:
    """Give a buffer, a larger one where it is too small, and its beginning in a shape."""
    size = math.prod(shape)
    if len(buffer) < size:
        buffer = buffer.new_empty(size)
    return buffer, buffer[:size].view(shape)


class DecomposedRoute:
    """p as products with its matrices (q, e, d), made once for an image."""

    def __init__(self, blocks: Tensor) -> None:
        self._products = _Decomposition(blocks)
        self.num_queries = len(blocks)

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self._products.nbytes

    def queries(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        self._products.rows(embeddings, out)

    def pull_back(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) of the embeddings from the gradient (M, q, d) of p."""
        return self._products.pull_back(grad)

    def of(self, rows: Tensor) -> DecomposedRoute:
        """Give the route to the p of some of its tokens only; copies their part."""
        return DecomposedRoute(self._products.blocks[rows])


class MixedRoute(DirectRoute):
    """p mixed of a few rows, these as products with their matrices (r, e, d), made once."""

    def __init__(self, constants: LayerConstants, blocks: Tensor) -> None:
        super().__init__(constants)
        self._products = _Decomposition(blocks)

    @property
    def nbytes(self) -> int:
        """Memory that its matrices take."""
        return self._products.nbytes

    def mixed_rows(self, embeddings: Tensor, hidden: Tensor, out: Tensor) -> None:
        """As in `DirectRoute`."""
        self._products.rows(embeddings, out)

    def pull_rows(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """As in `DirectRoute`."""
        return rows.new_zeros(len(rows), self._c.slope.shape[1]), self._products.pull_back(rows)

    def of(self, constants: LayerConstants) -> MixedRoute | None:
        """Give the route of a coarser mixture, if its rows are the first ones of this one's."""
        mine, theirs = self._c.slope, constants.slope
        if len(theirs) > len(mine) or not torch.equal(mine[: len(theirs)], theirs):
            return None
        return MixedRoute(constants, self._products.blocks[: len(theirs)])


def decompose(
    constants: LayerConstants, rows: int
) -> Generator[None, None, DecomposedRoute | MixedRoute]:
    """Make the matrices of `DecomposedRoute` or `MixedRoute`; yields between groups of ``rows``.

    ``constants`` may be those of some query tokens only; the route then gives these.
    """
    c = constants
    down = c.jacobian @ c.down
    direct = c.jacobian @ c.out
    joint, hidden = down.shape
    blocks = c.slope.new_empty(len(c.slope), joint, len(c.out))
    step = max(1, min(rows, rows_at_once(blocks.device) // joint))
    bent = blocks.new_empty(step, joint, hidden)
    for start in range(0, len(blocks), step):
        some = slice(start, min(start + step, len(blocks)))
        part, out = bent[: some.stop - start], blocks[some]
        torch.mul(c.slope[some, None], down, out=part)
        torch.mm(part.flatten(0, 1), c.mixed, out=out.flatten(0, 1))
        if c.mixing is None:
            out += direct
            along = c.bend[some] @ down.T
            out.baddbmm_(along[:, :, None], c.offset[some, None], alpha=-1)
        yield
    return DecomposedRoute(blocks) if c.mixing is None else MixedRoute(c, blocks)


Route = DirectRoute | DecomposedRoute | MixedRoute
