"""LeGrad's map and its vector-Jacobian product on NVIDIA GPUs, as three Triton kernels.

As in flash attention (arXiv 2205.14135), a block of the attention gradients is computed from p and
the values, used and dropped; nothing of shape (heads, masks, queries, tokens) is ever written. One
more computes p from the weights, and the way back, without writing (masks, tokens, hidden units).
Each number is written by one program, which adds up in a fixed order: the same call gives the same
bits.

Triton is no dependency: it comes with PyTorch's builds for CUDA. `fused` imports this module.
"""

# Triton reads these functions' text; it has no types.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators, allow-untyped-calls
from __future__ import annotations

from typing import Any, Final

import torch
import triton
import triton.language as tl
from torch import Tensor

# Queries and tokens of a block, warps and stages, by whether a head's padded width is above 64 and
# whether float32 products are three of tf32. With these (nearly) all numbers of a block fit the
# registers, and the shared memory of every GPU that has tf32.
_SUMS: Final = {
    (False, False): (64, 128, 4, 3),
    (False, True): (64, 128, 8, 2),
    (True, False): (64, 64, 4, 2),
    (True, True): (64, 32, 8, 2),
}
_VJP: Final = {
    (False, False): (128, 64, 4, 2),
    (False, True): (64, 32, 4, 2),
    (True, False): (64, 64, 8, 2),
    (True, True): (32, 32, 4, 2),
}
# Rows, columns and terms of a block, warps and stages, of the products of float32.
_PRODUCTS: Final = (64, 128, 32, 4, 3)


@triton.jit(do_not_specialize=["images", "queries", "tokens"])
def _sums_kernel(
    p_start,
    values_start,
    image_start,
    sums_start,
    images,
    queries,
    tokens,
    heads: tl.constexpr,
    width: tl.constexpr,
    padded: tl.constexpr,
    precision: tl.constexpr,
    query_block: tl.constexpr,
    token_block: tl.constexpr,
):
    """Sum the positive attention gradients of one mask and head over queries, for some tokens."""
    blocks = (tokens + token_block - 1) // token_block
    mask = (tl.program_id(0) // blocks).to(tl.int64)
    head = tl.program_id(1)
    image = mask * 0 if image_start is None else tl.load(image_start + mask).to(tl.int64)
    token = (tl.program_id(0) % blocks) * token_block + tl.arange(0, token_block)
    column = tl.arange(0, padded)
    values_start += (head * images + image) * tokens * width
    values = tl.load(
        values_start + token[:, None] * width + column[None, :],
        mask=(token[:, None] < tokens) & (column[None, :] < width),
        other=0.0,
    )
    p_start += mask * queries * (heads * width) + head * width
    sums = tl.full((query_block, token_block), 0.0, tl.float32)
    for first in range(0, queries, query_block):
        query = first + tl.arange(0, query_block)
        p = tl.load(
            p_start + query[:, None] * (heads * width) + column[None, :],
            mask=(query[:, None] < queries) & (column[None, :] < width),
            other=0.0,
        )
        sums += tl.maximum(tl.dot(p, tl.trans(values), input_precision=precision), 0.0)
    row = sums_start + (mask * heads + head) * tokens
    tl.store(row + token, tl.sum(sums, axis=0), mask=token < tokens)


@triton.jit(do_not_specialize=["images", "queries", "tokens"])
def _vjp_kernel(
    p_start,
    values_start,
    image_start,
    columns_start,
    out_start,
    images,
    queries,
    tokens,
    shared: tl.constexpr,
    heads: tl.constexpr,
    width: tl.constexpr,
    padded: tl.constexpr,
    precision: tl.constexpr,
    query_block: tl.constexpr,
    token_block: tl.constexpr,
):
    """Compute the gradient of p of one mask and head, for some queries."""
    blocks = (queries + query_block - 1) // query_block
    mask = (tl.program_id(0) // blocks).to(tl.int64)
    head = tl.program_id(1)
    image = mask * 0 if image_start is None else tl.load(image_start + mask).to(tl.int64)
    query = (tl.program_id(0) % blocks) * query_block + tl.arange(0, query_block)
    column = tl.arange(0, padded)
    place = head * width + query[:, None] * (heads * width) + column[None, :]
    inside = (query[:, None] < queries) & (column[None, :] < width)
    row = image if shared else mask
    p = tl.load(p_start + row * queries * (heads * width) + place, mask=inside, other=0.0)
    values_start += (head * images + image) * tokens * width
    columns_start += mask * tokens
    gradient = tl.full((query_block, padded), 0.0, tl.float32)
    for first in range(0, tokens, token_block):
        token = first + tl.arange(0, token_block)
        values = tl.load(
            values_start + token[:, None] * width + column[None, :],
            mask=(token[:, None] < tokens) & (column[None, :] < width),
            other=0.0,
        )
        factors = tl.load(columns_start + token, mask=token < tokens, other=0.0)
        product = tl.dot(p, tl.trans(values), input_precision=precision)
        # The ReLU passes the gradient where it was positive.
        passed = tl.where(product > 0, factors[None, :], 0.0).to(values.dtype)
        gradient += tl.dot(passed, values, input_precision=precision)
    tl.store(
        out_start + mask * queries * (heads * width) + place,
        gradient.to(out_start.dtype.element_ty),
        mask=inside,
    )


@triton.jit(do_not_specialize=["rows"])
def _product_kernel(
    rows_start,
    matrix_start,
    factors_start,
    out_start,
    rows,
    folded: tl.constexpr,
    own: tl.constexpr,
    terms: tl.constexpr,
    columns: tl.constexpr,
    term_step: tl.constexpr,
    column_step: tl.constexpr,
    precision: tl.constexpr,
    row_block: tl.constexpr,
    column_block: tl.constexpr,
    term_block: tl.constexpr,
):
    """Multiply some rows of a group by some columns of the matrix.

    The terms of the rows have factors, or the products have, and are summed over rows (folded).
    """
    column = tl.program_id(0) * column_block + tl.arange(0, column_block)
    blocks = (rows + row_block - 1) // row_block
    group = (tl.program_id(1) // blocks).to(tl.int64)
    row = (tl.program_id(1) % blocks) * row_block + tl.arange(0, row_block)
    rows_start += group * rows * terms if own or folded else 0
    product = tl.full((row_block, column_block), 0.0, tl.float32)
    for first in range(0, terms, term_block):
        term = first + tl.arange(0, term_block)
        part = tl.load(
            rows_start + row[:, None].to(tl.int64) * terms + term[None, :],
            mask=(row[:, None] < rows) & (term[None, :] < terms),
            other=0.0,
        )
        if not folded:
            factors = tl.load(factors_start + group * terms + term, mask=term < terms, other=0.0)
            part *= factors[None, :]
        matrix = tl.load(
            matrix_start + term[:, None] * term_step + column[None, :] * column_step,
            mask=(term[:, None] < terms) & (column[None, :] < columns),
            other=0.0,
        )
        product += tl.dot(part, matrix, input_precision=precision)
    place = row[:, None].to(tl.int64) * columns + column[None, :]
    inside = (row[:, None] < rows) & (column[None, :] < columns)
    if folded:
        factors_start += group * rows * columns if own else 0
        product *= tl.load(factors_start + place, mask=inside, other=0.0)
        out_start += tl.program_id(1).to(tl.int64) * columns
        tl.store(out_start + column, tl.sum(product, axis=0), mask=column < columns)
    else:
        tl.store(out_start + group * rows * columns + place, product, mask=inside)


def positive_sums(p: Tensor, values: Tensor, image: Tensor | None = None) -> Tensor:
    """Return the sums (M, n), float32, of the positive ``<p_i, v_j>`` over heads and queries.

    p (M, q, h * w) and values (h, images, n, w) are contiguous; ``image`` (M,) has the number of
    the image of each mask (default: 0).
    """
    count, queries = p.shape[:2]
    heads, images, tokens, _ = values.shape
    sums = p.new_empty(count, heads, tokens, dtype=torch.float32)
    settings = _settings(_SUMS, values)
    grid = (count * triton.cdiv(tokens, settings["token_block"]), heads)
    with torch.cuda.device_of(p):
        _sums_kernel[grid](p, values, image, sums, images, queries, tokens, **settings)
    return sums.sum(1)


def vjp(
    p: Tensor,
    values: Tensor,
    columns: Tensor,
    out: Tensor,
    image: Tensor | None = None,
    *,
    shared: bool = False,
) -> None:
    """Write the gradient (M, q, h * w) of p to ``out``, from columns (M, n), float32, of the sums.

    As in `positive_sums`; a ``shared`` p has a row for each image instead of each mask.
    """
    count, queries = out.shape[:2]
    heads, images, tokens, _ = values.shape
    settings = _settings(_VJP, values) | {"shared": shared}
    grid = (count * triton.cdiv(queries, settings["query_block"]), heads)
    with torch.cuda.device_of(p):
        _vjp_kernel[grid](p, values, image, columns, out, images, queries, tokens, **settings)


def _settings(table: dict[tuple[bool, bool], tuple[int, int, int, int]], v: Tensor) -> Any:
    padded = max(16, triton.next_power_of_2(v.shape[3]))
    rounded = v.dtype != torch.float32 or torch.backends.cuda.matmul.fp32_precision == "tf32"
    queries, tokens, warps, stages = table[padded > 64, not rounded]
    return {
        "heads": v.shape[0],
        "width": v.shape[3],
        "padded": padded,
        "precision": "tf32" if rounded else "tf32x3",
        "query_block": queries,
        "token_block": tokens,
        "num_warps": warps,
        "num_stages": stages,
    }


def scaled_product(factors: Tensor, rows: Tensor, matrix: Tensor, out: Tensor) -> None:
    """Write ``(factors[:, None] * rows) @ matrix`` to ``out`` (A, B, n), in float32.

    factors (A, m), rows (B, m) or (A, B, m), matrix (m, n); all but the matrix are contiguous.
    """
    settings, grid = _of_product(matrix, out.shape, own=rows.ndim == 3, folded=False)
    with torch.cuda.device_of(out):
        _product_kernel[grid](rows, matrix, factors, out, out.shape[1], **settings)


def folded_product(rows: Tensor, matrix: Tensor, factors: Tensor) -> Tensor:
    """Return the sums (A, m) over B of ``rows @ matrix.T * factors``, in float32.

    rows (A, B, n), matrix (m, n), factors (B, m) or (A, B, m); all but the matrix are contiguous.
    """
    settings, grid = _of_product(matrix.T, rows.shape, own=factors.ndim == 3, folded=True)
    sums = rows.new_empty(grid[1], len(matrix))
    with torch.cuda.device_of(rows):
        _product_kernel[grid](rows, matrix, factors, sums, rows.shape[1], **settings)
    return sums.view(len(rows), -1, len(matrix)).sum(1)


def _of_product(matrix: Tensor, shape: tuple[int, ...], **kind: bool) -> tuple[Any, Any]:
    """Return the settings of a product of groups of rows, and its blocks of columns and rows."""
    rows, columns, terms, warps, stages = _PRODUCTS
    settings = {
        "terms": matrix.shape[0],
        "columns": matrix.shape[1],
        "term_step": matrix.stride(0),
        "column_step": matrix.stride(1),
        "precision": "tf32x3",
        "row_block": rows,
        "column_block": columns,
        "term_block": terms,
        "num_warps": warps,
        "num_stages": stages,
    }
    blocks = triton.cdiv(matrix.shape[1], columns), shape[0] * triton.cdiv(shape[1], rows)
    return settings | kind, blocks
