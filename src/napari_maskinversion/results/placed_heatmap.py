"""A heatmap and its position on the plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..images.windows import FloatBox

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PlacedHeatmap:
    """A heatmap and its position."""

    values: FloatArray  # (h, w), float32
    # ``(y0, x0, y1, x1)`` in plane pixels, counted at pixel edges: pixel p along y is centred on
    # plane coordinate ``y0 + (p + 0.5) * (y1 - y0) / h - 0.5``
    box: FloatBox


def paste(placed: PlacedHeatmap, plane: tuple[int, int], size: tuple[int, int]) -> FloatArray:
    """Return a heatmap interpolated on the whole plane, 0 outside its box."""
    out = np.zeros(size, dtype=np.float32)
    values, targets = placed.values, []
    for axis in (0, 1):
        low, high = placed.box[axis], placed.box[axis + 2]
        count = placed.values.shape[axis]
        centres = (np.arange(size[axis]) + 0.5) * plane[axis] / size[axis]
        inside = np.flatnonzero((centres >= low) & (centres < high))
        where = np.clip((centres[inside] - low) * count / (high - low) - 0.5, 0, count - 1)
        first = np.minimum(where.astype(np.intp), max(count - 2, 0))
        part = (where - first).astype(np.float32)
        part = part[:, None] if axis == 0 else part
        second = np.minimum(first + 1, count - 1)
        values = (1 - part) * values.take(first, axis) + part * values.take(second, axis)
        targets.append(inside)
    out[np.ix_(targets[0], targets[1])] = values
    return out
