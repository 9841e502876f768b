"""Precision of matrix products: what each one needs, and how torch is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch

from ...base.errors import ConfigError
from .devices import processor

STORED: Final = {"bfloat16": torch.bfloat16, "float16": torch.float16}
"""What large constants are stored as; they stay as they are with the other precisions."""

# Compute capability from which NVIDIA GPUs have tensor cores for tf32 and bfloat16.
_AMPERE: Final = (8, 0)
_MPS_BFLOAT16: Final = (14, 0)  # version of macOS


def check_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that a device cannot compute with, or only more slowly than float32.

    Raises
    ------
    ConfigError
        Names the device and what it would need.
    """
    need = _missing(precision, device)
    if need:
        name = processor() if device.type == "cpu" else device.type.upper()
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
    """Return what a device would have to be; "" if it is."""
    kind = device.type
    if precision == "bfloat16":
        if kind == "cpu":
            return "" if cpu_has_bfloat16() else "a processor with AMX or AVX512-BF16, or a GPU"
        if kind == "mps":
            recent = torch.backends.mps.is_macos_or_newer(*_MPS_BFLOAT16)
            return "" if recent else "macOS 14 or newer on Apple's GPUs"
    if precision == "float16" and kind == "cpu":
        return "a GPU"
    if precision == "tf32" or (precision == "bfloat16" and kind == "cuda"):
        recent = kind == "cuda" and torch.cuda.get_device_capability(device) >= _AMPERE
        return "" if recent else "an NVIDIA GPU of compute capability 8.0 or higher"
    return ""


def cpu_has_bfloat16() -> bool:
    """Return whether this processor multiplies bfloat16 faster than float32."""
    flags = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, flag, bool)() for flag in flags)


@contextmanager
def float32_products(*, tf32: bool = False) -> Iterator[None]:
    """Multiply float32 as float32, or as tf32 on a GPU, whatever the host has set.

    torch's switches belong to the process. Hold the compute lock, and not across a ``yield``.
    """
    with ExitStack() as switches:
        for switch, name, wanted in _switches(tf32=tf32):
            before = getattr(switch, name)
            # "none" is torch's default, and means float32 for products.
            if before != wanted and (before, wanted) != ("none", "ieee"):
                setattr(switch, name, wanted)
                switches.callback(setattr, switch, name, before)
        yield


def _switches(*, tf32: bool) -> Iterator[tuple[Any, str, Any]]:
    """Yield object, attribute and wanted value of each of torch's switches."""
    backends: Any = torch.backends
    cuda, cudnn, mkldnn = backends.cuda, backends.cudnn, backends.mkldnn
    on_gpu = "tf32" if tf32 else "ieee"
    if hasattr(cuda.matmul, "fp32_precision"):
        # Of cuDNN only convolutions matter; torch lets them use tf32 by default.
        yield cuda.matmul, "fp32_precision", on_gpu
        yield cudnn.conv, "fp32_precision", on_gpu
        yield mkldnn.matmul, "fp32_precision", "ieee"
        yield mkldnn.conv, "fp32_precision", "ieee"
    else:  # torch before 2.9
        yield cuda.matmul, "allow_tf32", tf32
        yield cudnn, "allow_tf32", tf32
