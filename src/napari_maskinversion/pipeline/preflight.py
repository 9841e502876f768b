"""Check before a run whether it fits the machine. Never imports torch itself."""

from __future__ import annotations

import math
import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from ..base import memory
from ..engine.compute.lazy_torch import torch_if_loaded
from ..engine.settings import DECOMPOSED_SHARE, MEMORY_SHARE, decomposing_pays
from .architecture_sizes import tower_size
from .timings import known_speed

_FLOAT: Final = 4  # bytes
# Bytes that a `MaskInverter` uses on the CPU for the buffers of a step.
_BUFFERS: Final = 256 * 2**20
_USUAL_GPU: Final = 8 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """Memory that a run needs and that is free."""

    device: str  # As torch writes it
    name: str  # The device in words
    free: int | None  # Bytes; None if only torch knows and it is not loaded
    needed: int  # Bytes, a rough estimate

    @property
    def short(self) -> bool:
        """Whether the run may not fit."""
        return self.free is not None and self.needed > self.free

    @property
    def brief(self) -> str:
        """The device; memory as well where the run takes more than half of what is free."""
        tight = self.free is not None and self.needed > self.free / 2
        return self.text if tight else f"On {self.name}"

    @property
    def text(self) -> str:
        """One line for users."""
        need = f"about {_amount(self.needed)} needed"
        if self.free is None:
            return f"On {self.name}; {need}"
        line = f"On {self.name}: {_amount(self.free)} free, {need}"
        if not self.short:
            return line
        return f"{line}. It may not fit: choose a smaller model or chunk size, or go on and see"


def preflight(
    *,
    device: str,
    architecture: str,
    resolution: int,
    patch: int,
    at_once: int,
    layers: int = 1,
    weights: int = 0,
    regions: int = 1,
    steps: int = 10,
) -> Preflight:
    """Compare what a run needs with what is free."""
    tokens = 1 + max(2, round(resolution / patch)) ** 2
    needed = needed_memory(architecture, tokens, at_once=at_once, layers=layers, device=device)
    kept = layers * decomposition(architecture, tokens, regions=regions, steps=steps)
    needed += kept if kept <= total_memory(device) * MEMORY_SHARE * DECOMPOSED_SHARE else 0
    # On the CPU, weights are in memory twice while their file is read.
    needed += weights * (2 if device == "cpu" else 1)
    return Preflight(
        device=device, name=device_name(device), free=free_memory(device), needed=needed
    )


def decomposition(architecture: str, tokens: int, *, regions: int, steps: int) -> int:
    """Return the bytes of a layer's decomposition; 0 where so few regions go without one."""
    width, _ = tower_size(architecture)
    joint = 2 * width // 3
    passes = regions * (1 + 2 * steps)
    pays = decomposing_pays(4 * width, joint, passes, regions)
    return joint * tokens * width * _FLOAT if pays else 0


def needed_memory(
    architecture: str, tokens: int, *, at_once: int, layers: int = 1, device: str = "cpu"
) -> int:
    """Estimate the bytes of an inversion, without the model's weights and a decomposition.

    This counts the explained layers' constants, the largest tensors of a forward pass, and the
    buffers of a step (see `MaskInverter`).
    """
    width, heads = tower_size(architecture)
    hidden, joint = 4 * width, 2 * width // 3
    constants = 2 * tokens * (width + hidden) + width * (2 * hidden + width + joint)
    forward = 2 * heads * tokens**2 + 4 * tokens * hidden
    mask = heads * tokens**2 + 2 * tokens * width
    # Masks are worked on in groups that fit the budget.
    budget = _BUFFERS if device == "cpu" else step_budget(device)
    buffers = min(at_once * mask * layers * _FLOAT, max(budget, mask * _FLOAT))
    return (constants * layers + forward) * _FLOAT + buffers


def step_budget(device: str) -> int:
    """Return the bytes that a `MaskInverter` uses for the buffers of a step at most."""
    return int(total_memory(device) * MEMORY_SHARE * (1 - DECOMPOSED_SHARE))


def total_memory(device: str) -> int:
    """Return the bytes of a device's memory; a guess for a GPU while torch is not loaded."""
    if not device.startswith("cuda"):
        return memory.total_memory()
    torch = torch_if_loaded()
    if torch is None or not torch.cuda.is_available():
        return _USUAL_GPU
    return int(torch.cuda.mem_get_info(device)[1])


def likely_device(chosen: str, model: str, resolution: int) -> str:
    """Return the device that a choice will probably lead to.

    Without torch, "auto" is the device of earlier runs of the model, or a guess from the system's
    hardware: importing torch takes seconds, too long for a line of text.
    """
    if chosen != "auto":
        return {"cuda": "cuda:0"}.get(chosen, chosen)
    if torch_if_loaded() is not None:
        from ..engine.compute.devices import choose_device

        return str(choose_device("auto"))
    for device in ("cuda:0", "mps"):
        if known_speed(model, device, resolution) is not None:
            return device
    if sys.platform == "darwin" and platform.machine() == "arm64":
        return "mps"
    return "cuda:0" if _has_cuda() else "cpu"


def device_name(device: str) -> str:
    """Return the name of a device for users."""
    if device == "cpu":
        cores = os.cpu_count() or 1
        return f"the CPU ({cores} core{'s' * (cores != 1)})"
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
    # Memory that torch reserved but does not use is free for the run.
    spare = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + spare)


def _has_cuda() -> bool:
    try:
        built = "+cpu" not in version("torch")
    except PackageNotFoundError:
        return False
    return built and Path("/proc/driver/nvidia/version").exists()


def _amount(number: int) -> str:
    """Return bytes in words; two digits are more than is known."""
    mega = number / 1e6
    if mega < 95:
        return f"{max(10, 10 * math.ceil(mega / 10))} MB"
    if mega < 950:
        return f"{50 * math.ceil(mega / 50)} MB"
    return f"{mega / 1000:.1f} GB" if mega < 9950 else f"{mega / 1000:.0f} GB"
