"""Memory that drawing takes. Does not import torch."""

from __future__ import annotations

import math
from typing import Final

from ..base.errors import NotEnoughMemoryError
from .folders import DecoderFolder
from .settings import SMALLEST, PictureSettings

_BYTES: Final = {"float32": 4, "float16": 2, "bfloat16": 2}
# Numbers in memory for each pixel while latents become a picture, which takes more than a step.
_PER_PIXEL: Final = 1500
_SMALL: Final = 256


def chosen_dtype(settings: PictureSettings, device: str) -> str:
    """Return the name of the decoder's dtype on a device."""
    if settings.dtype != "auto":
        return settings.dtype
    return "float16" if device.startswith("cuda") else "float32"


def needed_memory(folder: DecoderFolder, size: int, dtype: str) -> int:
    """Return the bytes that drawing takes, roughly: the weights, and one picture at work."""
    return _BYTES[dtype] * (folder.parameters + _PER_PIXEL * size**2)


def check_memory(
    folder: DecoderFolder, settings: PictureSettings, device: str, name: str, free: int | None
) -> int:
    """Refuse what does not fit the free memory."""
    size = settings.size or folder.decoder.size
    dtype = chosen_dtype(settings, device)
    needed = needed_memory(folder, size, dtype)
    if free is None or needed <= free:
        return needed
    half = "float16" if device.startswith("cuda") else "bfloat16"
    tried = {(half, size), (dtype, min(size, _SMALL)), (half, min(size, _SMALL))} - {(dtype, size)}
    options = [
        f"in {kind} at {side} px it would fit"
        for kind, side in sorted(tried, key=lambda one: (-one[1], _BYTES[one[0]] != 4))
        if needed_memory(folder, side, kind) <= free
    ]
    least = needed_memory(folder, SMALLEST, half)
    advice = (
        options[0]
        if options
        else f"even the smallest picture in {half} takes {_gb(least)}, so use a device with "
        f"{_gb(needed_memory(folder, size, half))} free"
    )
    raise NotEnoughMemoryError(
        f"{folder.decoder.title} takes about {_gb(needed)} for {size} px in {dtype}, and {name} "
        f"has {_gb(free)} free; {advice}."
    )


def memory_text(needed: int, name: str, free: int | None) -> str:
    """Return one line about device and memory, for users."""
    have = "" if free is None else f", {_gb(free)} free"
    return f"Drawing on {name}: about {_gb(needed)} needed{have}"


def _gb(number: int) -> str:
    return f"{math.ceil(number / 1e8) / 10:.1f} GB" if number >= 1e8 else f"{number / 1e6:.0f} MB"
