"""Which devices this machine has."""

from __future__ import annotations

import warnings

import torch

from ...base.errors import ModelError


def choose_device(device: str) -> torch.device:
    """Return the device for a name; "auto" is CUDA, else Apple's MPS, else the CPU.

    Raises
    ------
    ModelError
        If the device is not there; the message names those that are.
    """
    present = devices()
    if device == "auto":
        return torch.device(present[1] if len(present) > 1 else "cpu")
    wanted = {"cuda": "cuda:0"}.get(str(device), str(device))
    if wanted not in present:
        raise ModelError(
            f"There is no device {device!r} here; present: {', '.join(present)}. "
            "Choose one of them, or 'auto'."
        )
    return torch.device(wanted)


def devices() -> list[str]:
    """Return the devices of this machine: "cpu", then "cuda:0" and so on, or "mps"."""
    found = ["cpu"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a driver that is too old: then there is no CUDA
        if torch.cuda.is_available():
            found += [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def same_device(a: torch.device, b: torch.device) -> bool:
    """Return whether both name one device; "cuda" without a number is the first."""
    return a.type == b.type and (a.index or 0) == (b.index or 0)


def release_memory(device: torch.device) -> None:
    """Give memory that torch keeps for later back to the device."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()
