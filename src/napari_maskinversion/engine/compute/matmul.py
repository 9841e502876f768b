"""Matrix products: the library that suits the processor, and the precision.

On the CPU, torch computes float32 products with its BLAS, usually MKL, which does not use AVX-512
on AMD processors. oneDNN, which torch includes for convolutions, does, and is twice as fast there.
The choice follows from the processor alone, so the same call always gives the same bits.
``torch.backends.mkldnn.enabled = False`` leaves everything to the BLAS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, Final, Literal

import torch
from torch import Tensor, nn

from ...base.errors import ConfigError
from .devices import AMPERE, processor

# Fewest multiply-adds for oneDNN. Each new shape costs it a millisecond, longer than a smaller
# product takes.
LARGE: Final = 1 << 21
# Most numbers of a result that is computed at once. oneDNN allocates results, and larger ones go
# back to the system each time, which has to map their pages again.
PIECE: Final = 1 << 20
# Makes a clamp to 0..1 a step: a power of two, which rounds nothing.
_STEEP: Final = 2.0**64
# Other subclasses of Tensor may define their own products.
_PLAIN: Final = (Tensor, nn.Parameter)

STORED: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""What large constants are stored as; they stay as they are with the other precisions."""

_MPS_BFLOAT16: Final = (14, 0)  # version of macOS


def cpu_library() -> Literal["oneDNN", "BLAS"]:
    """Return the library that computes large float32 products on this processor."""
    enabled = bool(torch.backends.mkldnn.enabled)
    if enabled and _onednn_suits_processor():
        return "oneDNN"
    return "BLAS"


@cache
def _onednn_suits_processor() -> bool:
    backend: Any = torch.backends.mkldnn
    operators = ("_linear_pointwise", "_reorder_linear_weight")
    available = backend.is_available() and all(hasattr(torch.ops.mkldnn, op) for op in operators)
    has_avx512 = torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    made_by_amd = processor().startswith("AMD ") or "AuthenticAMD" in processor()
    return bool(available and has_avx512 and made_by_amd)


def multiply(first: Tensor, second: Tensor, out: Tensor | None = None) -> Tensor:
    """Compute ``first @ second``, into ``out`` if given.

    Shapes: out (m, n); returns (m, n).
    """
    rows = first.shape[0]
    columns = second.shape[1]
    if not goes_to_onednn(rows * first.shape[1] * columns, first, second):
        return torch.mm(first, second, out=out)
    if out is None:
        if rows * columns <= PIECE:
            return linear(first, second.T)
        out = first.new_empty(rows, columns)
    for part in _parts(rows, columns):
        out[part] = linear(first[part], second.T)
    return out


class SharedFactor:
    """The second factor (k, n) of many products.

    It is packed once, in the order in which oneDNN reads it; otherwise each product would do that.
    """

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix
        self._packed: Tensor | None = None

    def multiply(self, first: Tensor, out: Tensor) -> Tensor:
        """Compute ``first @ matrix`` into ``out`` (m, n); they share no memory."""
        rows, columns = out.shape
        if not goes_to_onednn(rows * self._matrix.numel(), first, self._matrix):
            return torch.mm(first, self._matrix, out=out)
        if self._packed is None:
            pack = torch.ops.mkldnn._reorder_linear_weight
            self._packed = pack(self._matrix.T.contiguous(), None)
        for part in _parts(rows, columns):
            out[part] = _pointwise(first[part], self._packed)
        return out


def rectified(first: Tensor, second: Tensor, out: Tensor) -> Tensor:
    """Compute ``max(first @ second.T, 0)`` for each of h pairs of matrices.

    Shapes: out (h, m, n).
    """
    if _goes_fused(first, second):
        return _pointwise(first[0], second[0], "relu")[None]
    return _products(first, second, out).relu_()


def positive(first: Tensor, second: Tensor, out: Tensor) -> Tensor:
    """Compute where these products are above 0, as 0 and 1; parameters of `rectified`."""
    if _goes_fused(first, second):
        # Clamping 2**64 times the product to 0..1 leaves nothing between.
        return _pointwise(first[0], second[0] * _STEEP, "hardtanh", (0.0, 1.0))[None]
    return _products(first, second, out).gt_(0)


def _products(first: Tensor, second: Tensor, out: Tensor) -> Tensor:
    if first.shape[0] == 1:
        torch.mm(first[0], second[0].T, out=out[0])
        return out
    return torch.bmm(first, second.transpose(1, 2), out=out)


def _goes_fused(first: Tensor, second: Tensor) -> bool:
    numbers = first.shape[1] * second.shape[1]
    single = first.shape[0] == 1 and numbers <= PIECE
    return single and goes_to_onednn(numbers * first.shape[2], first, second)


def _parts(rows: int, columns: int) -> list[slice]:
    """Return slices of rows whose results oneDNN computes at once."""
    step = max(1, -(-rows // -(-rows * columns // PIECE)))
    return [slice(start, start + step) for start in range(0, rows, step)]


def goes_to_onednn(size: int, *tensors: Tensor) -> bool:
    """Return whether oneDNN should compute a product of these with ``size`` multiply-adds."""
    if size < LARGE or cpu_library() != "oneDNN":
        return False
    with_gradients = torch.is_grad_enabled()
    for tensor in tensors:
        plain = (
            type(tensor) in _PLAIN
            and tensor.dtype == torch.float32
            and tensor.device.type == "cpu"
            and tensor.layout == torch.strided
        )
        if not plain or (with_gradients and tensor.requires_grad):
            return False
    return True


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Compute ``rows @ weight.T + bias`` with oneDNN.

    Shapes: bias (n,).
    """
    if not (weight.is_contiguous() or weight.T.is_contiguous()):
        # oneDNN is slow with gaps between rows.
        weight = weight.contiguous()
    return _pointwise(rows, weight, bias=bias)


def _pointwise(
    rows: Tensor,
    weight: Tensor,
    function: str = "none",
    limits: tuple[float, ...] = (),
    bias: Tensor | None = None,
) -> Tensor:
    """Compute a function of ``rows @ weight.T + bias`` with oneDNN, in one pass."""
    apply = torch.ops.mkldnn._linear_pointwise
    result: Tensor = apply(rows, weight, bias, function, list(limits), "")
    return result


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that a device cannot compute with, or only more slowly than float32."""
    need = _missing(precision, device)
    if need:
        if device.type == "cpu":
            name = processor()
        else:
            name = device.type.upper()
        if device.type == "cuda":
            name = torch.cuda.get_device_name(device)
        raise ConfigError(
            f"precision {precision!r} needs {need}; this device ({name}) is none. "
            "Use precision 'float32'."
        )


def has_precision(precision: str, device: torch.device) -> bool:
    """Return whether `check_precision` accepts a precision."""
    return not _missing(precision, device)


def _missing(precision: str, device: torch.device) -> str:
    """Return what a device must be; "" if it is."""
    kind = device.type
    if precision == "bfloat16":
        if kind == "cpu":
            if cpu_has_bfloat16():
                return ""
            return "a processor with AMX or AVX512-BF16, or a GPU"
        if kind == "mps":
            recent = torch.backends.mps.is_macos_or_newer(*_MPS_BFLOAT16)
            if recent:
                return ""
            return "macOS 14 or newer on Apple's GPUs"
    if precision == "float16" and kind == "cpu":
        return "a GPU"
    if precision == "tf32" or (precision == "bfloat16" and kind == "cuda"):
        recent = kind == "cuda" and torch.cuda.get_device_capability(device) >= AMPERE
        if recent:
            return ""
        return "an NVIDIA GPU of compute capability 8.0 or higher"
    return ""


def cpu_has_bfloat16() -> bool:
    """Return whether this processor multiplies bfloat16 faster than float32."""
    flags = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, flag, bool)() for flag in flags)


@contextmanager
def float32_products(*, tf32: bool = False) -> Iterator[None]:
    """Multiply float32 as float32, or as tf32 on a GPU, independent of the host's setting.

    torch's switches belong to the process. Hold the compute lock, and not across a ``yield``.
    """
    backends: Any = torch.backends
    on_gpu = "ieee"
    if tf32:
        on_gpu = "tf32"
    wanted = (
        # Of cuDNN only convolutions matter; torch lets them use tf32 by default.
        (backends.cuda.matmul, on_gpu),
        (backends.cudnn.conv, on_gpu),
        (backends.mkldnn.matmul, "ieee"),
        (backends.mkldnn.conv, "ieee"),
    )
    with ExitStack() as changed:
        for switch, precision in wanted:
            before = switch.fp32_precision
            # "none" is torch's default, and means float32 for products.
            if before != precision and (before, precision) != ("none", "ieee"):
                switch.fp32_precision = precision
                changed.callback(setattr, switch, "fp32_precision", before)
        yield
