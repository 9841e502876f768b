"""Matrix products by the faster of the two libraries that torch brings for a processor.

Torch gives float32 products to its BLAS, mostly MKL, which uses no AVX-512 on AMD's processors.
oneDNN, which torch brings for convolutions, does, and is twice as fast there. Neither is faster
everywhere, so the first large product of a process lets both run; rounding is all they differ in.
``torch.backends.mkldnn.enabled = False`` leaves everything to the BLAS.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, Literal

import torch
from torch import Tensor

# Multiply-adds from which on oneDNN is asked; a smaller product is over before it has begun, and
# each new shape costs it a millisecond.
LARGE: Final = 1 << 23
# Numbers of a result that is made at once: oneDNN allocates it, and an allocator gives larger ones
# back to the system, which makes their pages anew each time.
_PIECE: Final = 1 << 20
# Its rows are a power of two, at most this one, so that they divide evenly and shapes are few.
_ROWS: Final = 512
# oneDNN has to be this much faster, so that chance decides nothing.
_CLEARLY: Final = 1.15
_ROUNDS: Final = 4


def multiply(first: Tensor, second: Tensor, out: Tensor | None = None) -> Tensor:
    """Give ``first @ second`` of shapes (m, k) and (k, n), written to ``out`` if that is given.

    Parameters
    ----------
    first, second : Tensor, shapes (m, k) and (k, n)
        ``out`` shares no memory with them.
    out : Tensor, shape (m, n), optional

    Returns
    -------
    Tensor, shape (m, n)
    """
    rows, columns = len(first), second.shape[1]
    if not goes_to_onednn(first, second, rows * first.shape[1] * columns):
        return torch.mm(first, second, out=out)
    if out is None:
        if rows * columns <= _PIECE:
            return linear(first, second.T)
        out = first.new_empty(rows, columns)
    step = _ROWS
    while step > 1 and step * columns > _PIECE:
        step //= 2
    for start in range(0, rows, step):
        out[start : start + step] = linear(first[start : start + step], second.T)
    return out


def multiply_positive(first: Tensor, second: Tensor, space: Tensor) -> Tensor:
    """Give ``max(first @ second, 0)``, in ``space`` or in memory of its own.

    Parameters
    ----------
    first, second : Tensor, shapes (m, k) and (k, n)
        Of so few rows that the result stays in a cache: it is made at once.
    space : Tensor, shape (m, n)
        Overwritten, or not.

    Returns
    -------
    Tensor, shape (m, n)
        The caller's, to write to.
    """
    if goes_to_onednn(first, second, space.numel() * first.shape[1]):
        return linear(first, second.T, then="relu")
    return torch.mm(first, second, out=space).relu_()


def goes_to_onednn(first: Tensor, second: Tensor, size: int) -> bool:
    """Whether a product of two tensors, of ``size`` multiply-adds, is one for oneDNN."""
    return (
        size >= LARGE
        and first.device.type == second.device.type == "cpu"
        and first.dtype == second.dtype == torch.float32
        and not (torch.is_grad_enabled() and (first.requires_grad or second.requires_grad))
        and bool(torch.backends.mkldnn.enabled)
        and _onednn_pays()
    )


def linear(
    rows: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    then: Literal["none", "relu"] = "none",
) -> Tensor:
    """Give ``rows @ weight.T + bias`` by oneDNN; shapes (..., k), (n, k) and (n,)."""
    if not (weight.is_contiguous() or weight.T.is_contiguous()):
        # oneDNN has nothing fast for gaps between rows.
        weight = weight.contiguous()
    found: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, then, [], "")
    return found


@lru_cache(maxsize=1)
def _onednn_pays() -> bool:
    """Whether oneDNN is there, gives the same numbers, and is clearly faster."""
    backend: Any = torch.backends.mkldnn
    if not backend.is_available():
        return False
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(512, 768, generator=generator)
    second = torch.randn(768, 768, generator=generator)
    ways: list[Callable[[], Any]] = [
        lambda: torch.mm(first, second),
        lambda: linear(first, second.T),
    ]
    try:
        with torch.no_grad():
            usual, found = (way() for way in ways)
            if not torch.allclose(usual, found, rtol=1e-4, atol=1e-3):
                return False
            # In turns, so that both meet the same disturbances.
            seconds = [[_seconds(way) for way in ways] for _ in range(_ROUNDS)]
    except (AttributeError, RuntimeError, TypeError):
        # An operator that torch does not document: without it everything stays as it was.
        return False
    blas, onednn = (min(column) for column in zip(*seconds, strict=True))
    return bool(blas > _CLEARLY * onednn)


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
