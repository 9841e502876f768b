"""What regions measure: their shape, and the values of each channel in them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

SHAPE: Final = {
    "eccentricity": "Eccentricity of the ellipse with the region's second moments: 0 for a circle",
    "solidity": "Share of the region's convex hull that it covers",
    "axis_major": "Longer axis of that ellipse, in pixels",
    "axis_minor": "Shorter axis of that ellipse, in pixels",
}
VALUES: Final = {"mean": "Mean", "std": "Standard deviation"}
_MOST: Final = 4_000_000  # pixels of a box; of a larger one, every n-th row and column counts


def explanation(name: str) -> str:
    """Return what a measure is, for people."""
    if name in SHAPE:
        return SHAPE[name]
    kind, _, channel = name.partition("_")
    return f"{VALUES[kind]} of channel {channel} in the region, as stored in the image"


def measure(mask: Array, values: Callable[[int, int], Array]) -> dict[str, float]:
    """Return the measures of a region by name; channels count from 0.

    Shapes: mask (h, w), of the region's box; values(top, bottom) reads its rows (n, w, channels).
    """
    from skimage.measure import regionprops

    step = math.isqrt(mask.size // _MOST) + 1
    inside = mask[::step, ::step] > (0.5 if (mask > 0.5).any() else 0)
    if not inside.any():
        return {}
    (about,) = regionprops(inside.astype(np.uint8))
    shape = {
        "eccentricity": float(about.eccentricity),
        "solidity": float(about.solidity),
        "axis_major": step * float(about.axis_major_length),
        "axis_minor": step * float(about.axis_minor_length),
    }
    rows = step * max(1, _MOST // (step * mask.shape[1]))
    tops = range(0, len(mask), rows)
    strips = []
    for top in tops:
        strip = values(top, min(top + rows, len(mask)))[::step, ::step]
        strips.append(strip[inside[top // step :][: len(strip)]])
    pixels = np.concatenate(strips).astype(np.float64)
    for channel, brightness in enumerate(pixels.T):
        finite = brightness[np.isfinite(brightness)]
        if finite.size:
            shape[f"mean_{channel}"] = float(finite.mean())
            shape[f"std_{channel}"] = float(finite.std())
    return shape
