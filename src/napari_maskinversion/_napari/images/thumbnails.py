"""Small pictures of images; for a worker. No Qt."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

SIDE: Final = 36  # pixels
_MOST: Final = 60_000_000  # pixels of the smallest level; a larger one would take too long


def thumbnail(file: Path, series: int | None = None) -> npt.NDArray[np.uint8] | None:
    """Return an image in small, (h, w, 3); None if it is too large to be read for that."""
    from ...images.opening import open_image
    from ...images.plane_source import read_reduced

    with open_image(file, series) as stack:
        middle = {name: size // 2 for name, size in stack.plane_axes.items()}
        source = stack.source(middle)
        level = len(source.levels) - 1
        height, width = source.levels[level].shape
        if height * width > _MOST:
            return None
        reduce = max(1, math.ceil(max(height, width) / SIDE))
        pixels = read_reduced(source, level, (0, 0, *_whole(height, width, reduce)), reduce)
        return _as_bytes(pixels)


def _whole(height: int, width: int, step: int) -> tuple[int, int]:
    return -(-height // step) * step, -(-width // step) * step


def _as_bytes(pixels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    if pixels.dtype == np.uint16:
        pixels = pixels.astype(np.float32) / 257
    elif pixels.dtype.kind == "f":
        pixels = pixels * 255
    small = np.clip(pixels, 0, 255).astype(np.uint8)
    if small.ndim == 2:
        small = np.stack([small] * 3, axis=-1)
    return np.ascontiguousarray(small[..., :3])
