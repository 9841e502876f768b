"""Devices of this machine."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from ...base import memory
from ...base.errors import ModelError

# Compute capability from which NVIDIA GPUs have tensor cores for tf32 and bfloat16.
AMPERE: Final = (8, 0)


def choose_device(device: str) -> torch.device:
    """Return the device for a name; "auto" is CUDA, then Apple's MPS, then the CPU."""
    present = devices()
    if device == "auto":
        return torch.device(present[1] if len(present) > 1 else "cpu")
    wanted = {"cuda": "cuda:0"}.get(str(device), str(device))
    if wanted not in present:
        raise ModelError(
            f"This machine has no device {device!r}; choose {', '.join(present)} or auto."
        )
    return torch.device(wanted)


def devices() -> list[str]:
    """Return the devices of this machine: "cpu", then "cuda:0" and so on, or "mps"."""
    names = ["cpu"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a driver that is too old warns
        if torch.cuda.is_available():
            names += [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        names.append("mps")
    return names


def empty_caches() -> None:
    """Return the memory that PyTorch keeps for later work to the devices."""
    for kind in {name.partition(":")[0] for name in devices()} - {"cpu"}:
        getattr(torch, kind).empty_cache()


@cache
def processor() -> str:
    """Return the processor's name, maker included: "Intel(R) Xeon(R) ...", "AMD EPYC ..."."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    # Windows: "AMD64 Family 25 Model 97 Stepping 2, AuthenticAMD".
    return platform.processor() or platform.machine()


def lacks_for_kernels(device: torch.device) -> str:
    """Return what a device lacks for the fused kernels of LeGrad; "" if nothing."""
    if device.type != "cuda" or torch.version.cuda is None:
        return "an NVIDIA GPU"
    if torch.cuda.get_device_capability(device) < AMPERE:
        return "an NVIDIA GPU of compute capability 8.0 or higher"
    if find_spec("triton"):
        return ""
    return "Triton, a part of PyTorch's CUDA builds for Linux"


def kernels_text(device: torch.device) -> str:
    """Return in some words what the fused kernels of LeGrad bring to an NVIDIA GPU, or would."""
    lacking = lacks_for_kernels(device)
    if not lacking:
        return "maps fused by Triton"
    return f"maps not fused (half the memory, up to twice as fast): that needs {lacking}"


def total_memory(device: torch.device) -> int:
    """Return the bytes of memory that a device has, free or not."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory())
    return memory.total_memory()


def on_cpu(function: Callable[[Tensor], Tensor], tensor: Tensor) -> Tensor:
    """Return ``function(tensor)`` on the tensor's device, computed on the CPU.

    For small work with operators that MPS lacks in the versions of torch that are allowed:
    antialiased resizing, QR and eigenvalue decompositions.
    """
    return function(tensor.cpu()).to(tensor.device)
