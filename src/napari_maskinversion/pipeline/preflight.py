"""Whether a run fits the machine, said before it starts. Never imports torch itself."""

from __future__ import annotations

import math
import os
import platform
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import psutil

from ..base.lazy_torch import torch_if_loaded
from ..engine.models.architecture_sizes import tower_size
from .timings import known_speed

_FLOAT: Final = 4  # bytes
# What a `MaskInverter` may keep beside the image, and take for the buffers of a step.
_KEPT, _BUFFERS = 512 * 2**20, 256 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Preflight:
    """What a run needs and what there is.

    Attributes
    ----------
    device : str
        As torch writes it.
    name : str
        The same for people.
    free : int or None
        Bytes; None where only torch could say and it is not loaded.
    needed : int
        Bytes, a rough estimate.
    """

    device: str
    name: str
    free: int | None
    needed: int

    @property
    def short(self) -> bool:
        """The run may not fit."""
        return self.free is not None and self.needed > self.free

    @property
    def text(self) -> str:
        """One line for people."""
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
) -> Preflight:
    """Compare what a run needs with what is free.

    Parameters
    ----------
    device : str
        As torch writes it; see `likely_device`.
    architecture : str
        open_clip's name, or "demo".
    resolution, patch : int
        Sides of the model's input and of its patches, in pixels.
    at_once : int
        Regions inverted together.
    layers : int
        Explained layers.
    weights : int
        Bytes still to be loaded; 0 for a model that is loaded.
    """
    tokens = 1 + max(2, round(resolution / patch)) ** 2
    needed = needed_memory(architecture, tokens, at_once=at_once, layers=layers)
    # While a file is read its numbers are there twice, on the CPU.
    needed += weights * (2 if device == "cpu" else 1)
    return Preflight(
        device=device, name=device_name(device), free=free_memory(device), needed=needed
    )


def needed_memory(architecture: str, tokens: int, *, at_once: int, layers: int = 1) -> int:
    """Bytes that an inversion takes beside the model's weights, roughly.

    Counted are the explained layers' constants, the largest tensors of a forward pass, what is kept
    with an image and the buffers of a step (see `MaskInverter`).
    """
    width, heads = tower_size(architecture)
    hidden, joint = 4 * width, 2 * width // 3
    constants = 2 * tokens * (width + hidden) + width * (2 * hidden + width + joint)
    forward = 2 * heads * tokens**2 + 4 * tokens * hidden
    mask = heads * tokens**2 + 2 * tokens * width
    buffers = min(at_once * mask * layers * _FLOAT, max(_BUFFERS, mask * _FLOAT))
    kept = min(joint * tokens * width * layers * _FLOAT, _KEPT)
    return (constants * layers + forward) * _FLOAT + buffers + kept


def likely_device(chosen: str, model: str, resolution: int) -> str:
    """Say what a choice of device will come to.

    Where torch is not loaded, "auto" is what earlier runs of the model used, or else what the
    system says of its hardware: an import of seconds is too much for a line of text.
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
    """Name a device for people."""
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
    """Bytes that are free on a device; None where that is not known."""
    if not device.startswith("cuda"):
        return int(psutil.virtual_memory().available)
    torch = torch_if_loaded()
    if torch is None or not torch.cuda.is_available():
        return None
    free, _ = torch.cuda.mem_get_info(device)
    # What torch holds and does not use is there for the run too.
    spare = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + spare)


def _has_cuda() -> bool:
    try:
        built = "+cpu" not in version("torch")
    except PackageNotFoundError:
        return False
    return built and Path("/proc/driver/nvidia/version").exists()


def _amount(number: int) -> str:
    """Bytes for people: two digits are more than is known."""
    mega = number / 1e6
    if mega < 95:
        return f"{max(10, 10 * math.ceil(mega / 10))} MB"
    if mega < 950:
        return f"{50 * math.ceil(mega / 50)} MB"
    return f"{mega / 1000:.1f} GB" if mega < 9950 else f"{mega / 1000:.0f} GB"
