"""Linear resampling along one axis, as small dense matrices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float64]


def bilinear_matrix(tokens: int, pixels: int) -> Matrix:
    """Return the weights (pixels, tokens) of linear interpolation along one axis.

    Row ``i`` holds the share of each token in pixel ``i``; rows sum to 1. Equals
    ``torch.nn.functional.interpolate(mode="bilinear", align_corners=False)``.
    """
    position = np.clip((np.arange(pixels) + 0.5) * tokens / pixels - 0.5, 0.0, tokens - 1.0)
    low = np.minimum(np.floor(position).astype(int), tokens - 1)
    high = np.minimum(low + 1, tokens - 1)
    weight = position - low
    matrix = np.zeros((pixels, tokens))
    np.add.at(matrix, (np.arange(pixels), low), 1.0 - weight)
    np.add.at(matrix, (np.arange(pixels), high), weight)
    return matrix


def extreme_rows(tokens: int, pixels: int) -> npt.NDArray[np.intp]:
    """Return the pixels at which a linearly interpolated signal can have its extremes.

    Between neighbouring tokens the signal is linear, so only the first and last pixel between them
    matter. A bilinear patch has its extremes at its corners, so the extremes of a map lie where
    such a row meets such a column.
    """
    position = np.clip((np.arange(pixels) + 0.5) * tokens / pixels - 0.5, 0.0, tokens - 1.0)
    cell = np.minimum(np.floor(position), max(tokens - 2, 0))
    first = np.flatnonzero(np.diff(cell, prepend=-1.0))
    last = np.flatnonzero(np.diff(cell, append=-1.0))
    return np.union1d(first, last)


def area_matrix(source: int, target: int) -> Matrix:
    """Return the weights (target, source) of area resampling: pixels average what they cover."""
    # Between two neighbouring edges of either raster lies a part of one pixel of each.
    edges = np.union1d(np.arange(target + 1) * source / target, np.arange(source + 1))
    middle = (edges[1:] + edges[:-1]) / 2
    matrix = np.zeros((target, source))
    cells = (middle * target / source).astype(int), middle.astype(int)
    np.add.at(matrix, cells, np.diff(edges) * (target / source))
    return matrix
