"""LeGrad's map and its vector-Jacobian product on NVIDIA GPUs, as two Triton kernels.

As in flash attention (arXiv 2205.14135), a block of the attention gradients is computed from p and
the values, used and dropped; nothing of shape (heads, masks, queries, tokens) is ever written. Each
number is written by one program, which adds up in a fixed order: the same call gives the same bits.

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
