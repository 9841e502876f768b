"""Soft Dice between masks and token maps, exact and without full-size maps.

The upsampled map is linear in the token map g. So every sum over pixels of the map, or of the map
times the mask, is a dot product of g with constant weights, and the map's extremes lie at a few
known pixels. The cost depends on the number of tokens, not of pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...base.regions import Region
from ..compute.matmul import float32_products
from ..encode.token_grid import TokenGrid
from ..explain.interpolation import FLAT, weights_of_pixels

Matrix = npt.NDArray[np.float64]

# Rounding error of a pixel's coverage.
_EVEN = 1e-5
# Pixels of masks and heatmaps at once.
_CPU_PIXELS: Final = 1 << 21
_GPU_PIXELS: Final = 1 << 25


class MaskTargets:
    """Masks as seen by the tokens of an input, of one plane or each of a plane of its own.

    Shapes: weights (N, tokens); areas (N,); low_resolution (N,), bool.
    """

    def __init__(
        self,
        regions: Iterable[Region],
        plane_sizes: tuple[int, int] | Sequence[tuple[int, int]],
        input_size: tuple[int, int],
        grid: tuple[int, int],
        like: Tensor,
    ) -> None:
        self._regions = list(regions)
        self.input_size = input_size
        self.grid = TokenGrid(*grid)
        # Torch's products, not NumPy's: the threads of a second library keep spinning after each
        # product and block torch's threads (three times slower on two cores).
        sizes = np.atleast_2d(plane_sizes)
        area = []
        first = []
        for i in (0, 1):
            # The matrices of all sizes side by side, and where each mask's begins.
            sides, which = np.unique(sizes[:, i], return_inverse=True)
            matrices = [area_matrix(int(side), input_size[i]) for side in sides]
            area.append(torch.from_numpy(np.concatenate(matrices, axis=1)))
            first.append((np.cumsum(sides) - sides)[which])
        self._first = np.broadcast_to(np.stack(first, axis=1), (len(self._regions), 2))
        to_pixels = [weights_of_pixels(input_size[i], grid[i]) for i in (0, 1)]
        upsampling = [weights.matrix for weights in to_pixels]
        # Apple's GPUs have no double precision.
        if like.device.type == "cpu":
            wide = torch.float64
        else:
            wide = like.dtype
        self._coverage = Resampling(area, like, wide)
        pairs = zip(upsampling, area, strict=True)
        to_tokens = Resampling([torch.from_numpy(up).T @ part for up, part in pairs], like, wide)
        pulled = [part.flatten(1) for part in to_tokens.batches(self._regions, self._first)]
        self.weights = torch.cat([like.new_empty(0, self.grid.tokens), *pulled]).to(like)
        scales = (input_size[0] * input_size[1]) / sizes.prod(1)
        areas = np.array([region.area for region in self._regions]) * scales
        self.low_resolution = areas < input_size[0] * input_size[1] / self.grid.tokens
        self.areas = torch.as_tensor(areas).to(like)
        ones = np.outer(upsampling[0].sum(0), upsampling[1].sum(0)).ravel()
        self._ones = torch.as_tensor(ones).to(like)
        self._pixels = float(input_size[0] * input_size[1])
        self._all_rows, self._all_columns = (torch.as_tensor(up).to(like) for up in upsampling)
        rows, columns = (weights.extremes for weights in to_pixels)
        self._rows = torch.as_tensor(upsampling[0][rows]).to(like)
        self._columns = torch.as_tensor(upsampling[1][columns]).to(like)

    def dice(self, maps: Tensor, masks: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Compute the soft Dice loss (M,) of token maps (M, tokens) and its gradient.

        The loss is ``1 - (2 sum(E m) + 1) / (sum(E) + sum(m) + 1)``. E is the map, upsampled
        bilinearly to the input's pixels and normalised to 0..1; a constant map becomes 0.
        ``masks`` selects the masks that the maps belong to.
        """
        weights = self.weights[masks]
        areas = self.areas[masks]
        image = maps.reshape(len(maps), *self.grid)
        corners = (self._rows @ image @ self._columns.T).flatten(1)
        highest = corners.amax(1)
        lowest = corners.amin(1)
        spread = highest - lowest
        flat = _is_flat(spread, highest)
        spread = torch.where(flat, 1.0, spread)
        scale = torch.where(flat, 0.0, 1.0 / spread)
        inside = ((maps * weights).sum(1) - lowest * areas) * scale
        total = (maps @ self._ones - lowest * self._pixels) * scale
        above = 2.0 * inside + 1.0
        below = total + areas + 1.0
        loss = 1.0 - above / below
        by_inside = -2.0 / below
        by_total = above / below**2
        # Gradient for fixed extremes, then through the pixels that are the extremes.
        grad = (by_inside * scale)[:, None] * weights + (by_total * scale)[:, None] * self._ones
        by_highest = -(by_inside * inside + by_total * total) * scale
        by_lowest = (by_inside * (inside - areas) + by_total * (total - self._pixels)) * scale
        peaks = by_highest[:, None] * _shared(corners == highest[:, None])
        peaks += by_lowest[:, None] * _shared(corners == lowest[:, None])
        peaks = peaks.reshape(len(maps), len(self._rows), len(self._columns))
        return loss, grad + (self._rows.T @ peaks @ self._columns).flatten(1)

    def overlaps(self, maps: Tensor, threshold: float = 0.5) -> Tensor:
        """Compute the intersection over union (N,) of masks and heatmaps above ``threshold``.

        At the input's pixels. A pixel belongs to a mask that covers at least half of it; for a mask
        too small for that, the pixels that it covers most.
        """
        ious = [torch.empty_like(maps[:0, 0])]
        start = 0
        for cover in self._coverage.batches(self._regions, self._first):
            heat = self._heatmaps(maps[start : start + len(cover)])
            most = cover.amax((1, 2), keepdim=True).clamp_max(0.5)
            hot = heat > threshold
            masks = cover >= most * (1 - _EVEN)
            union = (hot | masks).sum((1, 2)).clamp_min(1)
            ious.append((hot & masks).sum((1, 2)) / union)
            start += len(cover)
        return torch.cat(ious)

    def _heatmaps(self, maps: Tensor) -> Tensor:
        """Return heatmaps (M, H, W) of token maps (M, tokens) as `interpolation.heatmap` does."""
        image = maps.reshape(len(maps), *self.grid)
        with float32_products():  # tf32 would move their edges
            heat = self._all_rows @ (image @ self._all_columns.T)
        lowest = heat.amin((1, 2), keepdim=True)
        highest = heat.amax((1, 2), keepdim=True)
        spread = highest - lowest
        flat = _is_flat(spread, highest)
        return torch.where(flat, 0.0, (heat - lowest) / spread.masked_fill(flat, 1))

    def load(self, other: MaskTargets) -> None:
        """Copy what tokens see of as many other masks of an input of this size."""
        self.weights.copy_(other.weights)
        self.areas.copy_(other.areas)

    def part(self, masks: Tensor) -> MaskTargets:
        """Return the targets of these masks."""
        part = copy(self)
        part.weights = self.weights[masks]
        part.areas = self.areas[masks]
        indices = masks.tolist()
        part._regions = [self._regions[index] for index in indices]
        part._first = self._first[indices]
        part.low_resolution = self.low_resolution[indices]
        return part


class Resampling:
    """Resamples masks of a plane by two matrices, in batches on their device."""

    def __init__(self, matrices: Sequence[Tensor], like: Tensor, wide: torch.dtype) -> None:
        # By pixels, of which each mask takes those of its bounding box.
        rows, columns = (matrix.T.contiguous() for matrix in matrices)
        self._rows = rows.to(like)
        self._columns = columns.to(like.device, wide)

    def batches(
        self, regions: Sequence[Region], first: npt.NDArray[np.intp] | None = None
    ) -> Iterator[Tensor]:
        """Yield masks as (M, g, k), in the order of the regions.

        ``first`` (M, 2) are the rows and columns of the matrices that belong to the first pixels of
        their planes.
        """
        if first is None:
            first = np.zeros((len(regions), 2), np.intp)
        out = self._rows.shape[1] * self._columns.shape[1]
        limit = _GPU_PIXELS
        if self._rows.device.type == "cpu":
            limit = _CPU_PIXELS
        batch: list[tuple[Region, npt.NDArray[np.intp]]] = []
        height = width = 0
        for region, place in zip(regions, first, strict=True):
            y0, x0, y1, x1 = region.bbox
            shape = max(height, y1 - y0), max(width, x1 - x0)
            if batch and (len(batch) + 1) * max(shape[0] * shape[1], out) > limit:
                yield self._resample(batch, height, width)
                batch = []
                shape = (y1 - y0, x1 - x0)
            batch.append((region, place + np.array((y0, x0))))
            height, width = shape
        if batch:
            yield self._resample(batch, height, width)

    def _resample(
        self, batch: Sequence[tuple[Region, npt.NDArray[np.intp]]], height: int, width: int
    ) -> Tensor:
        masks = [region.mask for region, _ in batch]
        stack = np.zeros((len(masks), height, width), np.result_type(*masks))
        for place, mask in zip(stack, masks, strict=True):
            place[: mask.shape[0], : mask.shape[1]] = mask
        corners = torch.from_numpy(np.stack([corner for _, corner in batch])).to(self._rows.device)
        rows = _taken(self._rows, corners[:, 0], height)
        columns = _taken(self._columns, corners[:, 1], width)
        by_row = rows.transpose(1, 2) @ torch.from_numpy(stack).to(self._rows.device).to(rows.dtype)
        return by_row.to(columns.dtype) @ columns


def _taken(matrix: Tensor, starts: Tensor, count: int) -> Tensor:
    """Return ``count`` rows (M, count, k) from each start; the last row again beyond the end."""
    rows = starts[:, None] + torch.arange(count, device=matrix.device)
    return matrix[rows.clamp_max(len(matrix) - 1)]


def _is_flat(spread: Tensor, highest: Tensor) -> Tensor:
    """Return whether maps with these ranges and maxima are constant, up to rounding."""
    return spread <= FLAT * highest.abs().clamp_min(torch.finfo(spread.dtype).tiny)


def _shared(ties: Tensor) -> Tensor:
    """Split a gradient evenly between equal extremes, as torch's amax does."""
    return ties / ties.sum(1, keepdim=True)


def area_matrix(source: int, target: int) -> Matrix:
    """Return the weights (target, source) of area resampling: pixels average what they cover."""
    # Between two neighbouring edges of either raster lies a part of one pixel of each.
    edges = np.union1d(np.arange(target + 1) * source / target, np.arange(source + 1))
    middle = (edges[1:] + edges[:-1]) / 2
    matrix = np.zeros((target, source))
    cells = (middle * target / source).astype(int), middle.astype(int)
    np.add.at(matrix, cells, np.diff(edges) * (target / source))
    return matrix
