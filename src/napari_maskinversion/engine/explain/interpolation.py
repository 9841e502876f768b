"""From a map of tokens to pixels: every heatmap that is shown, saved or measured is made here.

As in the published implementation, a map is interpolated bilinearly to the pixels of the model's
input, and normalised to 0..1 there (`heatmap`). Anywhere else, as on the pixels of the plane, a
heatmap has the value that lies bilinearly between those of the input's pixels (`interpolated`).

- Saved: `Results.heatmap` and ``heatmaps.tif`` are `heatmap`, `interpolated` to the plane's pixels.
- Shown: the layer holds `heatmap`, and the viewer interpolates it to the pixels of the screen; cut
  off at a region, it holds `heatmap`, `interpolated` to places in the region's box.
- Measured: loss and overlap multiply by the `matrix` of the same weights, on the model's device.

To smooth what is shown and saved, change `heatmap`. `weights_at` changes the loss as well, so also
embeddings, and needs the places where such a map is largest, see `LinearWeights.extremes`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
# Maps whose range is below this part of their maximum are constant, but for rounding.
FLAT: Final = 1e-12
# Pixels computed at once, so that they stay in the processor's cache.
_AT_ONCE: Final = 1 << 18


@dataclass(frozen=True, slots=True, eq=False)
class LinearWeights:
    """Where places along one axis lie between samples. Each is near two of them."""

    first: npt.NDArray[np.intp]  # (places,), the sample before each place
    second: npt.NDArray[np.intp]  # (places,), the sample after it
    share: npt.NDArray[np.float64]  # (places,), 0..1: how much the second one counts
    samples: int

    @property
    def matrix(self) -> npt.NDArray[np.float64]:
        """The weight (places, samples) of each sample at each place; rows sum to 1."""
        places = np.arange(len(self.first))
        matrix = np.zeros((len(places), self.samples))
        np.add.at(matrix, (places, self.first), 1.0 - self.share)
        np.add.at(matrix, (places, self.second), self.share)
        return matrix

    @property
    def extremes(self) -> npt.NDArray[np.intp]:
        """The places, which must rise, at which an interpolated signal can have its extremes.

        Between neighbouring samples the signal is linear, so only the first and the last place
        between them matter. A bilinear patch has its extremes at its corners, so the extremes of a
        map lie where such a row meets such a column.
        """
        starts = np.flatnonzero(np.diff(self.first, prepend=-1))
        ends = np.flatnonzero(np.diff(self.first, append=-1))
        return np.union1d(starts, ends)


def weights_at(places: npt.ArrayLike, samples: int) -> LinearWeights:
    """Return the weights of samples at places, which are counted in samples.

    Sample ``i`` lies at ``i``. Before the first sample and after the last one, these count alone.
    """
    inside = np.clip(places, 0.0, samples - 1.0)
    first = np.minimum(np.floor(inside).astype(np.intp), max(samples - 2, 0))
    second = np.minimum(first + 1, samples - 1)
    return LinearWeights(first, second, inside - first, samples)


def weights_of_pixels(pixels: int, samples: int) -> LinearWeights:
    """Return the weights of samples at the centres of pixels that span the same length."""
    return weights_at((np.arange(pixels) + 0.5) * samples / pixels - 0.5, samples)


def interpolated(
    values: npt.NDArray[Any],
    rows: LinearWeights,
    columns: LinearWeights,
    out: FloatArray | None = None,
) -> FloatArray:
    """Interpolate values (h, w) at each row and column: (rows, columns), into ``out`` if given."""
    height = len(rows.first)
    width = len(columns.first)
    if out is None:
        out = np.empty((height, width), np.float32)
    values = np.asarray(values, dtype=np.float32)
    left = values.take(columns.first, axis=1)
    across = values.take(columns.second, axis=1)
    across -= left
    across *= columns.share.astype(np.float32)
    across += left
    share = rows.share.astype(np.float32)[:, None]
    step = max(1, _AT_ONCE // max(1, width))
    for start in range(0, height, step):
        strip = slice(start, start + step)
        above = across[rows.first[strip]]
        below = across[rows.second[strip]]
        below -= above
        below *= share[strip]
        np.add(above, below, out=out[strip])
    return out


def normalised(maps: npt.NDArray[Any], out: FloatArray | None = None) -> FloatArray:
    """Stretch each map (..., h, w) to 0..1, into ``out`` if given; a constant map becomes 0."""
    maps = np.asarray(maps, dtype=np.float32)
    lowest = maps.min((-2, -1), keepdims=True)
    highest = maps.max((-2, -1), keepdims=True)
    spread = highest - lowest
    flat = spread <= FLAT * np.maximum(np.abs(highest), np.finfo(np.float32).tiny)
    spread[flat] = np.inf  # which makes 0 of all
    heat: FloatArray = np.subtract(maps, lowest, out=out)
    heat /= spread
    return heat


def heatmap(
    grid_maps: npt.ArrayLike, input_size: tuple[int, int], out_size: tuple[int, int] | None = None
) -> FloatArray:
    """Return heatmaps (..., H, W), float32 in 0..1, of token maps (..., grid_h, grid_w).

    Their pixels are those of the model's input, of ``input_size``, or ``out_size`` pixels that span
    the same part of the image.
    """
    maps = np.asarray(grid_maps, dtype=np.float32)
    *leading, rows, columns = maps.shape
    to_input = weights_of_pixels(input_size[0], rows), weights_of_pixels(input_size[1], columns)
    height, width = input_size if out_size is None else out_size
    to_out = weights_of_pixels(height, input_size[0]), weights_of_pixels(width, input_size[1])
    heat = np.empty((math.prod(leading), height, width), np.float32)
    for token_map, pixels in zip(maps.reshape(-1, rows, columns), heat, strict=True):
        if (height, width) == tuple(input_size):
            normalised(interpolated(token_map, *to_input, out=pixels), out=pixels)
        else:
            seen = interpolated(token_map, *to_input)
            interpolated(normalised(seen, out=seen), *to_out, out=pixels)
    return heat.reshape(*leading, height, width)
