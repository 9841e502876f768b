"""PyTorch if it is loaded, and what is known of devices without waiting for its import."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType

from ...base import memory
from ...base.wording import counted


def torch_if_loaded() -> ModuleType | None:
    """Return PyTorch if it is already imported; None also while another thread imports it."""
    torch = sys.modules.get("torch")
    spec = getattr(torch, "__spec__", None)
    importing = getattr(spec, "_initializing", False)
    if importing:
        return None
    return torch


def likely_gpu() -> str:
    """Return the GPU that this machine's system seems to have; "" for none."""
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return "mps"
    try:
        built = "+cpu" not in version("torch")
    except PackageNotFoundError:
        return ""
    if built and Path("/proc/driver/nvidia/version").exists():
        return "cuda:0"
    return ""


def device_name(device: str) -> str:
    """Return the name of a device for users."""
    if device == "cpu":
        cores = os.cpu_count() or 1
        return f"the CPU ({counted(cores, 'core')})"
    if device == "mps":
        return "Apple's GPU"
    torch = torch_if_loaded()
    if torch is not None and torch.cuda.is_available():
        return f"{torch.cuda.get_device_name(device)} ({device})"
    return f"the GPU ({device})"


def free_memory(device: str) -> int | None:
    """Return the free bytes of a device; None if unknown."""
    if not device.startswith("cuda"):
        return memory.free_memory()
    torch = torch_if_loaded()
    if torch is None or not torch.cuda.is_available():
        return None
    free, _ = torch.cuda.mem_get_info(device)
    # Memory that torch reserved but does not use is free for new work.
    spare = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + spare)
