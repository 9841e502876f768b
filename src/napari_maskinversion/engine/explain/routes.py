"""Routes of LeGrad: ways to compute p from embeddings, and the transposed product back."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import replace

import torch
from torch import Tensor

from ...base.progress import MAPS, tick
from ..compute.matmul import goes_to_onednn, multiply
from ..encode.image_encoding import LayerConstants
from . import fused

# Rows of a product whose operands fit a processor's cache; GPUs are faster with many more.
_CPU_ROWS = 1024
# Numbers that a batch of products writes before they are copied to the output.
_CPU_BATCH_NUMBERS = 1 << 21


def rows_at_once(device: torch.device) -> int:
    """Return how many rows of a product to compute before using them."""
    if device.type == "cpu":
        return _CPU_ROWS
    return 1 << 16


def slices(count: int, size: int) -> list[slice]:
    """Return slices of at most ``size`` that cover ``count``."""
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]


class Workspace:
    """Buffers for a map and its gradient; several maps can share them, one at a time."""

    def __init__(self) -> None:
        self._pieces: dict[Hashable, Tensor] = {}

    def piece(self, key: Hashable, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """Return an uninitialised buffer; it overwrites the last one of this key."""
        size = math.prod(shape)
        buffer = self._pieces.get(key)
        if buffer is None or buffer.shape[0] < size:
            # The old one must be gone before the allocation.
            buffer = None
            self._pieces.pop(key, None)
            buffer = self._pieces[key] = like.new_empty(size)
        return buffer[:size].view(shape)


class DirectRoute:
    """p computed from the layer's weights.

    Shapes: shift (q, d).
    """

    name = "direct"

    def __init__(self, constants: LayerConstants, shift: Tensor | None = None) -> None:
        self._c = replace(constants, inputs=None)
        self.weights = constants.weights
        self._shift = shift
        self._several = constants.offset.ndim == 3  # each embedding has an image of its own
        self.num_queries = constants.offset.shape[-2]
        (rows, hidden) = constants.slope.shape[-2:]
        self.fuses = constants.coefficients is None and fused.multiplies(constants.slope)
        # Hidden units, unless a kernel never writes them, and another p.
        self.numbers = constants.offset.shape[-1] * self.num_queries
        self.numbers += 0 if self.fuses else rows * hidden
        self._block = max(1, 2 * rows_at_once(constants.slope.device) // rows)
        self._workspace = Workspace()

    def own(self) -> DirectRoute:
        """Return the same route on a copy of the image's constants."""
        return DirectRoute(self._c.own())

    def tensors(self) -> list[Tensor]:
        """Return the tensors that depend on the image."""
        return self._c.tensors()

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        weights = self._c.weights
        for start in range(0, embeddings.shape[0], self._block):
            part = slice(start, start + self._block)
            c = self._c.of(part) if self._several else self._c
            p = out[part]
            u = _times(embeddings[part], c.jacobian)
            hidden = u @ weights.down
            rows = p if c.coefficients is None else self._low_rank_rows(p)
            if not (self.fuses and fused.scaled_product(hidden, c.slope, weights.mixed, rows)):
                # `to` makes no copy unless the constants are stored in half precision.
                factors = hidden.to(c.slope.dtype)
                # Each mask's factor scales the rows, so all masks share one product.
                out_hidden = self._piece("hidden", u.shape[0], *c.slope.shape[-2:])
                bent = torch.mul(c.slope, factors[:, None], out=out_hidden)
                weights.by_mixed.multiply(bent.flatten(0, 1), rows.flatten(0, 1))
            if c.coefficients is not None:
                torch.bmm(c.coefficients.expand(u.shape[0], -1, -1), rows, out=p)
            along = _times(hidden, c.bend.mT)
            p.addcmul_(along.to(p.dtype)[:, :, None], c.offset, value=-1)
            p += (u @ weights.out).to(p.dtype)[:, None]
            if self._shift is not None:
                p += self._shift

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from that of p (M, q, d)."""
        weights = self._c.weights
        dtype = self._c.jacobian.dtype
        gradient = self._c.jacobian.new_empty(grad.shape[0], self._c.jacobian.shape[-2])
        for start in range(0, grad.shape[0], self._block):
            masks = slice(start, start + self._block)
            c = self._c.of(masks) if self._several else self._c
            part = grad[masks]
            rows = part
            if c.coefficients is not None:
                rows = self._low_rank_rows(part)
                torch.bmm(c.coefficients.T.expand(part.shape[0], -1, -1), part, out=rows)
            hidden = None
            if self.fuses:
                hidden = fused.folded_product(part, weights.mixed, c.slope)
            if hidden is None:
                bent = self._piece("hidden", part.shape[0], *c.slope.shape[-2:])
                weights.by_mixed_t.multiply(rows.flatten(0, 1), bent.flatten(0, 1))
                hidden = bent.mul_(c.slope).sum(1, dtype=dtype)
            product = torch.mul(part, c.offset, out=self._piece("product", *part.shape))
            along = product.sum(-1, dtype=dtype)
            if self._several:
                hidden -= _times(along, c.bend)
            else:
                hidden.addmm_(along, c.bend, alpha=-1)
            u = part.sum(1, dtype=dtype) @ weights.out.T + hidden @ weights.down.T
            if self._several:
                gradient[masks] = _times(u, c.jacobian.mT)
            else:
                torch.mm(u, c.jacobian.T, out=gradient[masks])
        return gradient

    def _low_rank_rows(self, p: Tensor) -> Tensor:
        """Return a buffer for the products of low-rank rows that are combined to p (M, q, d)."""
        return self._piece("rows", p.shape[0], self._c.slope.shape[0], p.shape[2])

    def _piece(self, name: str, *shape: int) -> Tensor:
        return self._workspace.piece(name, shape, self._c.slope)


def _times(rows: Tensor, matrix: Tensor) -> Tensor:
    """Multiply rows (M, k) by a matrix (k, n), or each by its own of (M, k, n)."""
    if matrix.ndim == 2:
        return rows @ matrix
    return (rows[:, None] @ matrix)[:, 0]


class DecomposedRoute:
    """p as products with matrices that are computed once per image.

    Separate matrices instead of one (e, q * d) stay in the processor's cache, which halves the time
    for few embeddings.

    Shapes: blocks (q, e, d).
    """

    name = "decomposed"
    weights = None  # the matrices hold them

    def __init__(
        self, blocks: Tensor, dtype: torch.dtype | None = None, *, fuses: bool = False
    ) -> None:
        self._blocks = blocks
        self._dtype = dtype or blocks.dtype
        self.fuses = fuses  # whether kernels have made the matrices
        self.num_queries = blocks.shape[0]
        self.numbers = blocks[:, 0].numel()
        self._workspace = Workspace()

    def own(self) -> DecomposedRoute:
        """Return the same route on a copy of the matrices."""
        return DecomposedRoute(self._blocks.clone(), self._dtype, fuses=self.fuses)

    def tensors(self) -> list[Tensor]:
        """Return the tensors that depend on the image."""
        return [self._blocks]

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        embeddings = embeddings.to(self._blocks.dtype)
        count = embeddings.shape[0]
        width = self._blocks.shape[2]
        if self._one_by_one(embeddings):
            for query, block in enumerate(self._blocks):
                multiply(embeddings, block, out[:, query])
            return
        for group in self._groups(count * width):
            blocks = self._blocks[group]
            vectors = self._piece(blocks.shape[0], count, width)
            torch.bmm(embeddings.expand(blocks.shape[0], -1, -1), blocks, out=vectors)
            out[:, group] = vectors.transpose(0, 1)

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from that of p (M, q, d)."""
        count = grad.shape[0]
        joint = self._blocks.shape[1]
        total = grad.new_zeros(count, joint, dtype=self._dtype)
        if self._one_by_one(grad):
            for query, block in enumerate(self._blocks):
                total += multiply(grad[:, query], block.T)
            return total
        for group in self._groups(count * joint):
            blocks = self._blocks[group].transpose(1, 2)
            gradients = self._piece(blocks.shape[0], count, joint)
            torch.bmm(grad[:, group].transpose(0, 1), blocks, out=gradients)
            total += gradients.sum(0, dtype=self._dtype)
        return total

    def _one_by_one(self, factors: Tensor) -> bool:
        """Return whether single products are large enough for oneDNN, which has no batches."""
        return goes_to_onednn(factors.shape[0] * self._blocks[0].numel(), factors, self._blocks)

    def _groups(self, numbers: int) -> list[slice]:
        """Return groups of queries to compute at once, with ``numbers`` numbers per query."""
        count = self._blocks.shape[0]
        on_cpu = self._blocks.device.type == "cpu"
        return slices(count, max(1, _CPU_BATCH_NUMBERS // numbers) if on_cpu else count)

    def _piece(self, *shape: int) -> Tensor:
        return self._workspace.piece("products", shape, self._blocks)


Route = DirectRoute | DecomposedRoute


def decompose(constants: LayerConstants, rows: int) -> DecomposedRoute:
    """Compute the matrices of a `DecomposedRoute`, ``rows`` at a time."""
    c = constants
    weights = constants.weights
    down = c.jacobian @ weights.down
    direct = c.jacobian @ weights.out
    along = (down @ c.bend.T).to(c.slope.dtype)
    down = down.to(c.slope.dtype)
    direct = direct.to(c.slope.dtype)
    joint, hidden = down.shape
    blocks = c.slope.new_empty(c.slope.shape[0], joint, c.offset.shape[1])
    step = max(1, min(rows, rows_at_once(blocks.device) // joint))
    fuses = fused.multiplies(c.slope)
    workspace = Workspace()
    for start in range(0, c.slope.shape[0], step):
        tokens = slice(start, min(start + step, c.slope.shape[0]))
        out = blocks[tokens]
        if fuses:
            fuses = fused.scaled_product(c.slope[tokens], down, weights.mixed, out)
        if not fuses:
            bent = workspace.piece("hidden", (len(out), joint, hidden), blocks)
            torch.mul(c.slope[tokens, None], down, out=bent)
            weights.by_mixed.multiply(bent.flatten(0, 1), out.flatten(0, 1))
        out += direct
        out.baddbmm_(along.T[tokens, :, None], c.offset[tokens, None], alpha=-1)
        tick(MAPS, tokens.stop, len(blocks))
    return DecomposedRoute(blocks, c.jacobian.dtype, fuses=fuses)
