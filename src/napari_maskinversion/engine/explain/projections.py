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
_BATCH_NUMBERS = 1 << 21
# Masks whose rows are computed before they are combined.
_MASKS_AT_ONCE = 64


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

    def __init__(self, constants: LayerConstants, shift: Tensor | None = None) -> None:
        self._c = constants
        self._shift = shift
        rows, hidden = constants.slope.shape
        self.num_queries, width = constants.offset.shape
        self._one_mask = rows * hidden * width
        self.block = max(1, 2 * rows_at_once(constants.slope.device) // rows)
        self._hidden = constants.slope.new_empty(0, rows, hidden)
        self._product = constants.slope.new_empty(0, self.num_queries, width)
        # Products of low-rank rows, before they are combined.
        self._rows = constants.slope.new_empty(0, rows, width)

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        c = self._c
        for start in range(0, len(embeddings), self.block):
            u = embeddings[start : start + self.block] @ c.jacobian
            p = out[start : start + len(u)]
            hidden = u @ c.down
            bent = self._bent(hidden).flatten(0, 1)
            if c.coefficients is None:
                multiply(bent, c.mixed, p.flatten(0, 1), size=self._one_mask)
            else:
                self._rows = at_least(self._rows, len(u))
                rows = self._rows[: len(u)]
                multiply(bent, c.mixed, rows.flatten(0, 1), size=self._one_mask)
                for p_of_mask, rows_of_mask in zip(p, rows, strict=True):
                    multiply(c.coefficients, rows_of_mask, p_of_mask)
            p.addcmul_((hidden @ c.bend.T)[:, :, None], c.offset, value=-1)
            p += (u @ c.out)[:, None]
            if self._shift is not None:
                p += self._shift

    def of(self, constants: LayerConstants, _: Tensor) -> DirectRoute:
        """Return the route of a sample of its query tokens with these constants."""
        return DirectRoute(constants)

    def shifted(self, shift: Tensor) -> DirectRoute:
        """Return the route to p plus ``shift`` (q, d)."""
        return DirectRoute(self._c, shift)

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from that of p (M, q, d)."""
        c = self._c
        gradient = grad.new_empty(len(grad), len(c.jacobian))
        for start in range(0, len(grad), self.block):
            part = grad[start : start + self.block]
            rows = part
            if c.coefficients is not None:
                self._rows = at_least(self._rows, len(part))
                rows = self._rows[: len(part)]
                for p_of_mask, rows_of_mask in zip(part, rows, strict=True):
                    multiply(c.coefficients.T, p_of_mask, rows_of_mask)
            hidden = self._vjp_rows(rows)
            self._product = at_least(self._product, len(part))
            along = torch.mul(part, c.offset, out=self._product[: len(part)]).sum(-1)
            hidden.addmm_(along, c.bend, alpha=-1)
            u = part.sum(1) @ c.out.T + hidden @ c.down.T
            torch.mm(u, c.jacobian.T, out=gradient[start : start + len(part)])
        return gradient

    def _vjp_rows(self, rows: Tensor) -> Tensor:
        self._hidden = at_least(self._hidden, len(rows))
        bent = self._hidden[: len(rows)]
        flat = rows.flatten(0, 1)
        multiply(flat, self._c.mixed.T, bent.flatten(0, 1), size=self._one_mask)
        return bent.mul_(self._c.slope).sum(1)

    def _bent(self, hidden: Tensor) -> Tensor:
        # Each mask's factor scales the few rows, so all masks share one product.
        self._hidden = at_least(self._hidden, len(hidden))
        return torch.mul(self._c.slope, hidden[:, None], out=self._hidden[: len(hidden)])


class _Decomposition:
    """Matrices (k, e, d) from embeddings to k vectors, as batched products.

    Separate matrices instead of one (e, k * d) stay in the processor's cache, which halves the time
    for few embeddings.
    """

    def __init__(self, blocks: Tensor) -> None:
        self.blocks = blocks
        self._vectors = blocks.new_empty(0)
        self._gradients = blocks.new_empty(0)

    @property
    def nbytes(self) -> int:
        """Bytes of the matrices."""
        return self.blocks.numel() * self.blocks.element_size()

    def rows(self, embeddings: Tensor, out: Tensor) -> None:
        """Write the rows of embeddings (M, e) to ``out`` (M, k, d)."""
        count, width = len(embeddings), self.blocks.shape[2]
        if self._one_by_one(embeddings):
            for row, block in enumerate(self.blocks):
                multiply(embeddings, block, out[:, row])
            return
        for group in self._groups(count * width):
            blocks = self.blocks[group]
            self._vectors, vectors = _piece(self._vectors, len(blocks), count, width)
            torch.bmm(embeddings.expand(len(blocks), -1, -1), blocks, out=vectors)
            out[:, group] = vectors.transpose(0, 1)

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from that of the rows (M, k, d)."""
        count, joint = len(grad), self.blocks.shape[1]
        total = grad.new_zeros(count, joint)
        if self._one_by_one(grad):
            for row, block in enumerate(self.blocks):
                total += multiply(grad[:, row], block.T)
            return total
        for group in self._groups(count * joint):
            blocks = self.blocks[group].transpose(1, 2)
            self._gradients, gradients = _piece(self._gradients, len(blocks), count, joint)
            torch.bmm(grad[:, group].transpose(0, 1), blocks, out=gradients)
            total += gradients.sum(0)
        return total

    def _one_by_one(self, factors: Tensor) -> bool:
        """Return whether single products are large enough for oneDNN, which has no batches."""
        return goes_to_onednn(len(factors) * self.blocks[0].numel(), factors, self.blocks)

    def _groups(self, numbers: int) -> list[slice]:
        """Return groups of rows to compute at once, with ``numbers`` numbers per row."""
        count = len(self.blocks)
        step = max(1, _BATCH_NUMBERS // numbers)
        return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _piece(buffer: Tensor, *shape: int) -> tuple[Tensor, Tensor]:
    """Return a buffer that is large enough, and its beginning in this shape."""
    size = math.prod(shape)
    if len(buffer) < size:
        buffer = buffer.new_empty(size)
    return buffer, buffer[:size].view(shape)


class DecomposedRoute:
    """p as products with matrices (q, e, d) that are computed once per image."""

    def __init__(self, blocks: Tensor) -> None:
        self._products = _Decomposition(blocks)
        self.num_queries = len(blocks)

    @property
    def nbytes(self) -> int:
        """Bytes of the matrices."""
        return self._products.nbytes

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        self._products.rows(embeddings, out)

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from that of p (M, q, d)."""
        return self._products.vjp(grad)


class LowRankRoute:
    """p combined from a few rows, which are products with matrices computed once per image.

    Parameters
    ----------
    constants : LayerConstants
        With ``coefficients`` (n, r).
    blocks : Tensor, shape (1 + r, e, d)
        Matrices of ``u Wo``, which all tokens share, and of each row.
    along : Tensor, shape (e, n)
        Matrix of the factor of ``offset``.
    shift : Tensor, shape (n, d), optional
        Added to every p.
    """

    def __init__(
        self,
        constants: LayerConstants,
        blocks: Tensor,
        along: Tensor,
        shift: Tensor | None = None,
    ) -> None:
        assert constants.coefficients is not None
        coefficients = constants.coefficients
        self._constants = constants
        self._coefficients = torch.cat(
            [coefficients.new_ones(len(coefficients), 1), coefficients], dim=1
        )
        self._offset, self._along = constants.offset, along
        self._shift = constants.offset.new_zeros(()) if shift is None else shift
        self._products = _Decomposition(blocks)
        self.num_queries, width = constants.offset.shape
        self._rows = blocks.new_empty(0, len(blocks), width)

    @property
    def nbytes(self) -> int:
        """Bytes of its matrices."""
        return self._products.nbytes

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        for start in range(0, len(embeddings), _MASKS_AT_ONCE):
            part = embeddings[start : start + _MASKS_AT_ONCE]
            p, rows = out[start : start + len(part)], self._buffer(len(part))
            self._products.rows(part, rows)
            along = (part @ self._along)[:, :, None]
            torch.addcmul(self._shift, along, self._offset, value=-1, out=p)
            p.baddbmm_(self._coefficients.expand(len(p), -1, -1), rows)

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from that of p (M, q, d)."""
        gradient = grad.new_empty(len(grad), len(self._along))
        for start in range(0, len(grad), _MASKS_AT_ONCE):
            part = grad[start : start + _MASKS_AT_ONCE]
            rows = self._buffer(len(part))
            torch.bmm(self._coefficients.T.expand(len(part), -1, -1), part, out=rows)
            rows_gradient = self._products.vjp(rows)
            along = torch.einsum("mqd,qd->mq", part, self._offset)
            out = gradient[start : start + len(part)]
            out.copy_(rows_gradient.addmm_(along, self._along.T, alpha=-1))
        return gradient

    def shifted(self, shift: Tensor) -> LowRankRoute:
        """Return the route to p plus ``shift`` (n, d)."""
        return LowRankRoute(self._constants, self._products.blocks, self._along, shift)

    def of(self, constants: LayerConstants, rows: Tensor) -> LowRankRoute:
        """Return the route of a sample of its query tokens with these constants."""
        return LowRankRoute(constants, self._products.blocks, self._along[:, rows])

    def _buffer(self, count: int) -> Tensor:
        self._rows = at_least(self._rows, count)
        return self._rows[:count]


def decompose(
    constants: LayerConstants, rows: int
) -> Generator[None, None, DecomposedRoute | LowRankRoute]:
    """Compute the matrices of a `DecomposedRoute` or `LowRankRoute`.

    Yields between groups of ``rows``. ``constants`` may be those of a sample of query tokens.
    """
    c = constants
    down = c.jacobian @ c.down
    direct = c.jacobian @ c.out
    along = down @ c.bend.T
    joint, hidden = down.shape
    first = 0 if c.coefficients is None else 1
    blocks = c.slope.new_empty(first + len(c.slope), joint, len(c.out))
    blocks[:first] = direct
    step = max(1, min(rows, rows_at_once(blocks.device) // joint))
    bent = blocks.new_empty(step, joint, hidden)
    for start in range(0, len(c.slope), step):
        slope = c.slope[start : start + step]
        part = torch.mul(slope[:, None], down, out=bent[: len(slope)])
        out = blocks[first + start : first + start + len(slope)]
        multiply(part.flatten(0, 1), c.mixed, out.flatten(0, 1))
        if c.coefficients is None:
            tokens = slice(start, start + len(slope))
            out += direct
            out.baddbmm_(along.T[tokens, :, None], c.offset[tokens, None], alpha=-1)
        yield
    return DecomposedRoute(blocks) if c.coefficients is None else LowRankRoute(c, blocks, along)


class ExactForwardRoute:
    """The exact p, with the backward pass of a cheaper route.

    Parameters
    ----------
    exact : DirectRoute or DecomposedRoute
    estimate : DirectRoute or LowRankRoute
        To nearly the same p.
    """

    def __init__(
        self, exact: DirectRoute | DecomposedRoute, estimate: DirectRoute | LowRankRoute
    ) -> None:
        self._exact, self._estimate = exact, estimate
        self.num_queries = exact.num_queries

    def project(self, embeddings: Tensor, out: Tensor) -> None:
        """Write p of embeddings (M, e) to ``out`` (M, q, d)."""
        self._exact.project(embeddings, out)

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) of the embeddings from that of p (M, q, d)."""
        return self._estimate.vjp(grad)


Route = DirectRoute | DecomposedRoute | LowRankRoute | ExactForwardRoute
