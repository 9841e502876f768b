"""Contrast limits: the values of a plane that are shown as black and as white."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from .lazy_plane import LazyPlane, blocks
from .plane_source import Array, nothing_to_see

FloatArray = npt.NDArray[np.float32]

# Pixels. Larger levels are sampled on a grid of patches.
_MAX_WHOLE: Final = 4_000_000
_PATCH: Final = 512
PERCENTILES: Final = (0.1, 99.9)


def auto_limits(
    plane: LazyPlane, percentiles: tuple[float, float] = PERCENTILES
) -> tuple[float, float]:
    """Compute the contrast limits of a plane.

    uint8, bool and floats in 0..1 keep their range. Other types have no range of their own: their
    limits are percentiles of the finite values on the coarsest level (for a large plane without
    coarser levels, on a grid of patches).
    """
    values = _sample(plane)
    if not values.size:
        values = _finite(np.asarray(_extremes(plane)))  # finite values lie only between the patches
    if not values.size:
        raise InputError(
            "The image has no finite value (all are NaN or infinite); choose another plane."
        )
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = _extremes(plane)
    if low == high:
        raise InputError(nothing_to_see(values.flat[0]))
    if plane.dtype == np.uint8:
        return 0.0, 255.0
    if plane.dtype.kind == "b" or (plane.dtype.kind == "f" and low >= 0 and high <= 1):
        return 0.0, 1.0
    bottom, top = (float(value) for value in np.percentile(values, percentiles))
    # If nearly all pixels are background, both percentiles are the background.
    return (bottom, top) if bottom < top else (low, high)


def _sample(plane: LazyPlane) -> Array:
    """Sample finite values of a plane, at most about four million pixels."""
    level = len(plane.levels) - 1
    height, width = plane.levels[level].shape
    if height * width <= _MAX_WHOLE:
        return _finite(plane.read(level, (0, 0, height, width)))
    parts = []
    for row in range(4):
        for column in range(4):
            y = min(max(0, (2 * row + 1) * height // 8 - _PATCH // 2), max(0, height - _PATCH))
            x = min(max(0, (2 * column + 1) * width // 8 - _PATCH // 2), max(0, width - _PATCH))
            box = (y, x, min(y + _PATCH, height), min(x + _PATCH, width))
            parts.append(_finite(plane.read(level, box)))
    return np.concatenate(parts)


def _extremes(plane: LazyPlane) -> tuple[float, float]:
    """Find the smallest and largest finite value of the coarsest level, block by block."""
    level = len(plane.levels) - 1
    low, high = np.inf, -np.inf
    for box in blocks(plane.levels[level].shape, 2048):
        values = _finite(plane.read(level, box))
        if values.size:
            low, high = min(low, float(values.min())), max(high, float(values.max()))
        # 8-bit images keep their range, so any two values will do.
        if low < high and plane.dtype.itemsize == 1:
            break
    return low, high


def _finite(values: Array) -> Array:
    if values.dtype.kind == "c":
        raise InputError(
            f"The image contains values of type {values.dtype}; an image has real numbers."
        )
    flat = values.ravel()
    return flat[np.isfinite(flat)] if values.dtype.kind == "f" else flat


def scale_to_unit(values: Array, limits: tuple[float, float], gamma: float = 1.0) -> FloatArray:
    """Scale values between two limits to 0..1.

    NaN becomes the lower limit; infinities and values outside the limits are clipped.
    """
    low, high = limits
    exact = values.dtype.itemsize >= 8 or (values.dtype.kind in "iu" and values.dtype.itemsize >= 4)
    wide: Any = np.float64 if exact else np.float32
    with np.errstate(invalid="ignore", over="ignore"):
        unit = (values.astype(wide) - wide(low)) / wide(high - low if high > low else 1.0)
    unit = np.clip(np.nan_to_num(unit, copy=False, nan=0.0, posinf=1.0, neginf=0.0), 0, 1)
    if gamma != 1:
        unit = unit**gamma
    return np.asarray(unit, dtype=np.float32)
