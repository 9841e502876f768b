"""Routes from embeddings to their query vectors p, each with its vector-Jacobian product.

p is linear in the embedding (see `LayerConstants`), so the backward pass is the transposed product.
Routes reuse their buffers in every step.
"""

from __future__ import annotations

import math
from collections.abc import Generator

import torch
from torch import Tensor

from ..compute.matmul import goes_to_onednn, multiply
from ..encode.image_encoding import LayerConstants

# Rows of a product whose operands fit a processor's cache; GPUs are faster with many more.
_CPU_ROWS = 1024
# Numbers that a batch of products writes before they are copied to the output.
_CPU_BATCH_NUMBERS = 1 << 21


def rows_at_once(device: torch.device) -> int:
    """Return how many rows of a product to compute before using them."""
    return _CPU_ROWS if device.type == "cpu" else 1 << 16


def at_least(buffer: Tensor, count: int) -> Tensor:
    """Return the buffer, or a new one if it has fewer than ``count`` rows."""
    return buffer if len(buffer) >= count else buffer.new_empty(count, *buffer.shape[1:])


class DirectRoute:
    """p computed from the layer's weights.

    Parameters
    ----------
    constants : LayerConstants
    shift : Tensor, shape (q, d), optional
        Added to every p.
    """

    name = "direct"

    def __init__(self, constants: LayerConstants, shift: Tensor | None = None) -> None:
        self._c = constants
        self._shift = shift
        rows, hidden = constants.slope.shape
        self.num_queries, width = constants.offset.shape
        self._block = max(1, 2 * rows_at_once(constants.slope.device) // rows)
        self._hidden = constants.slope.new_empty(0, rows, hidden)
        self._product = constants.slope.new_empty(0, self.num_queries, width)
        # Products of low-rank rows, before they are combined.
        self._rows = constants.slope.new_empty(0, rows, width)

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        c = self._c
        for start in range(0, len(embeddings), self._block):
            u = embeddings[start : start + self._block] @ c.jacobian
            p = out[start : start + len(u)]
            hidden = u @ c.down
            # `to` makes no copy unless the constants are stored in half precision.
            factors = hidden.to(c.slope.dtype)
            # Each mask's factor scales the rows, so all masks share one product.
            self._hidden = at_least(self._hidden, len(u))
            bent = torch.mul(c.slope, factors[:, None], out=self._hidden[: len(u)])
            rows = p if c.coefficients is None else self._rows_of(len(u))
            multiply(bent.flatten(0, 1), c.mixed, rows.flatten(0, 1))
            if c.coefficients is not None:
                torch.bmm(c.coefficients.expand(len(u), -1, -1), rows, out=p)
            p.addcmul_((hidden @ c.bend.T).to(p.dtype)[:, :, None], c.offset, value=-1)
            p += (u @ c.out).to(p.dtype)[:, None]
            if self._shift is not None:
                p += self._shift

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from that of p (M, q, d)."""
        c, dtype = self._c, self._c.jacobian.dtype
        gradient = c.jacobian.new_empty(len(grad), len(c.jacobian))
        for start in range(0, len(grad), self._block):
            part = grad[start : start + self._block]
            rows = part
            if c.coefficients is not None:
                rows = self._rows_of(len(part))
                torch.bmm(c.coefficients.T.expand(len(part), -1, -1), part, out=rows)
            self._hidden = at_least(self._hidden, len(part))
            bent = self._hidden[: len(part)]
            multiply(rows.flatten(0, 1), c.mixed.T, bent.flatten(0, 1))
            hidden = bent.mul_(c.slope).sum(1, dtype=dtype)
            self._product = at_least(self._product, len(part))
            along = torch.mul(part, c.offset, out=self._product[: len(part)]).sum(-1, dtype=dtype)
            hidden.addmm_(along, c.bend, alpha=-1)
            u = part.sum(1, dtype=dtype) @ c.out.T + hidden @ c.down.T
            torch.mm(u, c.jacobian.T, out=gradient[start : start + len(part)])
        return gradient

    def _rows_of(self, masks: int) -> Tensor:
        self._rows = at_least(self._rows, masks)
        return self._rows[:masks]


class DecomposedRoute:
    """p as products with matrices that are computed once per image.

    Separate matrices instead of one (e, q * d) stay in the processor's cache, which halves the time
    for few embeddings.

    Parameters
    ----------
    blocks : Tensor, shape (q, e, d)
        One matrix for each query token.
    dtype : torch.dtype, optional
        Of embeddings and their gradients (default: of the blocks).
    """

    name = "decomposed"

    def __init__(self, blocks: Tensor, dtype: torch.dtype | None = None) -> None:
        self._blocks, self._dtype = blocks, dtype or blocks.dtype
        self.num_queries = len(blocks)
        self._buffer = blocks.new_empty(0)

    @property
    def nbytes(self) -> int:
        """Bytes of the matrices."""
        return self._blocks.numel() * self._blocks.element_size()

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        embeddings = embeddings.to(self._blocks.dtype)
        count, width = len(embeddings), self._blocks.shape[2]
        if self._one_by_one(embeddings):
            for query, block in enumerate(self._blocks):
                multiply(embeddings, block, out[:, query])
            return
        for group in self._groups(count * width):
            blocks = self._blocks[group]
            vectors = self._piece(len(blocks), count, width)
            torch.bmm(embeddings.expand(len(blocks), -1, -1), blocks, out=vectors)
            out[:, group] = vectors.transpose(0, 1)

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from that of p (M, q, d)."""
        count, joint = len(grad), self._blocks.shape[1]
        total = grad.new_zeros(count, joint, dtype=self._dtype)
        if self._one_by_one(grad):
            for query, block in enumerate(self._blocks):
                total += multiply(grad[:, query], block.T)
            return total
        for group in self._groups(count * joint):
            blocks = self._blocks[group].transpose(1, 2)
            gradients = self._piece(len(blocks), count, joint)
            torch.bmm(grad[:, group].transpose(0, 1), blocks, out=gradients)
            total += gradients.sum(0, dtype=self._dtype)
        return total

    def _one_by_one(self, factors: Tensor) -> bool:
        """Return whether single products are large enough for oneDNN, which has no batches."""
        return goes_to_onednn(len(factors) * self._blocks[0].numel(), factors, self._blocks)

    def _groups(self, numbers: int) -> list[slice]:
        """Return groups of queries to compute at once, with ``numbers`` numbers per query."""
        count = len(self._blocks)
        on_cpu = self._blocks.device.type == "cpu"
        step = max(1, _CPU_BATCH_NUMBERS // numbers) if on_cpu else count
        return [slice(start, min(start + step, count)) for start in range(0, count, step)]

    def _piece(self, *shape: int) -> Tensor:
        size = math.prod(shape)
        if len(self._buffer) < size:
            self._buffer = self._buffer.new_empty(size)
        return self._buffer[:size].view(shape)


Route = DirectRoute | DecomposedRoute


def decompose(constants: LayerConstants, rows: int) -> Generator[None, None, DecomposedRoute]:
    """Compute the matrices of a `DecomposedRoute`; yields between groups of ``rows``."""
    c = constants
    down = c.jacobian @ c.down
    direct = c.jacobian @ c.out
    along = (down @ c.bend.T).to(c.slope.dtype)
    down, direct = down.to(c.slope.dtype), direct.to(c.slope.dtype)
    joint, hidden = down.shape
    blocks = c.slope.new_empty(len(c.slope), joint, len(c.out))
    step = max(1, min(rows, rows_at_once(blocks.device) // joint))
    bent = blocks.new_empty(step, joint, hidden)
    for start in range(0, len(c.slope), step):
        tokens = slice(start, min(start + step, len(c.slope)))
        out = blocks[tokens]
        part = torch.mul(c.slope[tokens, None], down, out=bent[: len(out)])
        multiply(part.flatten(0, 1), c.mixed, out.flatten(0, 1))
        out += direct
        out.baddbmm_(along.T[tokens, :, None], c.offset[tokens, None], alpha=-1)
        yield
    return DecomposedRoute(blocks, c.jacobian.dtype)
