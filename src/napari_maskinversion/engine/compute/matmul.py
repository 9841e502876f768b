"""Matrix products on the CPU, by the library that suits the processor.

torch computes float32 products with its BLAS, usually MKL, which does not use AVX-512 on AMD
processors. oneDNN, which torch includes for convolutions, does, and is twice as fast there. The
choice follows from the processor alone, so the same call always gives the same bits.
``torch.backends.mkldnn.enabled = False`` leaves everything to the BLAS.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from .devices import processor

# Fewest multiply-adds for oneDNN. Each new shape costs it a millisecond, longer than a smaller
# product takes.
LARGE: Final = 1 << 21
# Most numbers of a result that is computed at once. oneDNN allocates results, and larger ones go
# back to the system each time, which has to map their pages again.
PIECE: Final = 1 << 20
# Most rows at once; a power of two, so that rows divide evenly and shapes are few.
_ROWS: Final = 512
# Other subclasses of Tensor may define their own products.
_PLAIN: Final = (Tensor, nn.Parameter)


def cpu_library() -> Literal["oneDNN", "BLAS"]:
    """Return the library that computes large float32 products on this processor."""
    enabled = bool(torch.backends.mkldnn.enabled)
    return "oneDNN" if enabled and _onednn_suits_processor() else "BLAS"


@cache
def _onednn_suits_processor() -> bool:
    backend: Any = torch.backends.mkldnn
    available = backend.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    has_avx512 = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    made_by_amd = processor().startswith("AMD ") or "AuthenticAMD" in processor()
    return bool(available and has_avx512 and made_by_amd)


def multiply(first: Tensor, second: Tensor, out: Tensor | None = None) -> Tensor:
    """Compute ``first @ second``, into ``out`` if given.

    Parameters
    ----------
    first, second : Tensor, shapes (m, k) and (k, n)
        They share no memory with ``out``.
    out : Tensor, shape (m, n), optional

    Returns
    -------
    Tensor, shape (m, n)
    """
    rows, columns = len(first), second.shape[1]
    if not goes_to_onednn(rows * first.shape[1] * columns, first, second):
        return torch.mm(first, second, out=out)
    if out is None:
        if rows * columns <= PIECE:
            return linear(first, second.T)
        out = first.new_empty(rows, columns)
    step = _ROWS
    while step > 1 and step * columns > PIECE:
        step //= 2
    for start in range(0, rows, step):
        out[start : start + step] = linear(first[start : start + step], second.T)
    return out


def goes_to_onednn(size: int, *tensors: Tensor) -> bool:
    """Return whether oneDNN should compute a product of these with ``size`` multiply-adds."""
    return (
        size >= LARGE
        and cpu_library() == "oneDNN"
        and all(_is_plain(tensor) for tensor in tensors)
        and not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
    )


def _is_plain(tensor: Tensor) -> bool:
    return (
        type(tensor) in _PLAIN
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
    )


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute ``rows @ weight.T + bias`` with oneDNN.

    Parameters
    ----------
    rows, weight : Tensor, shapes (..., k) and (n, k)
    bias : Tensor, shape (n,), optional
        Contiguous: oneDNN ignores strides here.
    """
    if not (weight.is_contiguous() or weight.T.is_contiguous()):
        # oneDNN is slow with gaps between rows.
        weight = weight.contiguous()
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product
