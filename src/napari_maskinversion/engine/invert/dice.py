"""Masks as targets of token maps: soft Dice without ever touching a full-size map.

The upsampled map is linear in the token map g, so every sum over pixels of the map or of the map
times the mask is a dot product of g with weights that do not change from step to step, and the
map's smallest and largest pixels lie among a few known ones. Exact, at the cost of the tokens.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as functional
from torch import Tensor

from ...base.regions import Region
from ..encode.resampling import area_matrix, bilinear_matrix, extreme_rows

# A map whose largest and smallest pixel differ by less than this part of the largest is constant.
_FLAT = 1e-12
# Rounding of a pixel's cover.
_EVEN = 1e-6


class MaskTargets:
    """Masks of one plane, seen by the tokens of one input.

    Parameters
    ----------
    regions : iterable of Region
        On a plane of ``plane_size`` pixels.
    plane_size, input_size, grid : tuple of int
        (H, W) of the plane, of the model's input, and of the token grid.
    like : Tensor
        Gives the device and the type of the tensors made.

    Attributes
    ----------
    weights : Tensor, shape (N, tokens)
        How much of the mask each token's bilinear footprint holds.
    areas : Tensor, shape (N,)
        Masks' areas in input pixels.
    """

    def __init__(
        self,
        regions: Iterable[Region],
        plane_size: tuple[int, int],
        input_size: tuple[int, int],
        grid: tuple[int, int],
        like: Tensor,
    ) -> None:
        self._regions = list(regions)
        self.input_size = input_size
        self.grid = grid
        # Torch's products, not NumPy's: the threads of a second library go on spinning after each
        # product, on the processors that torch's threads need (three times slower on two cores).
        self._area = [torch.from_numpy(area_matrix(plane_size[i], input_size[i])) for i in (0, 1)]
        upsampling = [bilinear_matrix(grid[i], input_size[i]) for i in (0, 1)]
        to_tokens = [
            torch.from_numpy(up).T @ area for up, area in zip(upsampling, self._area, strict=True)
        ]
        # Rows are the many ones on a large plane: only they are worth less than double precision.
        self._rows_kind = like.dtype
        first = to_tokens[0].to(self._rows_kind)
        weights = torch.empty((len(self._regions), grid[0] * grid[1]), dtype=torch.float64)
        areas = np.empty(len(self._regions))
        scale = (input_size[0] * input_size[1]) / (plane_size[0] * plane_size[1])
        for index, region in enumerate(self._regions):
            y0, x0, y1, x1 = region.bbox
            seen = (first[:, y0:y1] @ self._mask(region)).double()
            weights[index] = (seen @ to_tokens[1][:, x0:x1].T).flatten()
            areas[index] = _total(region.mask) * scale
        self.weights = weights.to(like)
        self.areas = torch.as_tensor(areas).to(like)
        ones = np.outer(upsampling[0].sum(0), upsampling[1].sum(0)).ravel()
        self._ones = torch.as_tensor(ones).to(like)
        self._pixels = float(input_size[0] * input_size[1])
        rows = [extreme_rows(grid[i], input_size[i]) for i in (0, 1)]
        self._rows = torch.as_tensor(upsampling[0][rows[0]]).to(like)
        self._columns = torch.as_tensor(upsampling[1][rows[1]]).to(like)

    @cached_property
    def low_resolution(self) -> npt.NDArray[np.bool_]:
        """Masks (N,) smaller than one token."""
        token = self._pixels / (self.grid[0] * self.grid[1])
        return np.asarray(self.areas.cpu().numpy() < token)

    def dice(self, maps: Tensor, chosen: slice | Tensor) -> tuple[Tensor, Tensor]:
        """Soft Dice loss (M,) of token maps (M, tokens) and masks ``chosen``, and its gradient.

        The loss is ``1 - (2 sum(E m) + 1) / (sum(E) + sum(m) + 1)``, E the map upsampled bilinearly
        to the input's pixels and stretched to 0..1; a constant map counts as 0 everywhere.
        """
        weights, areas = self.weights[chosen], self.areas[chosen]
        image = maps.reshape(len(maps), *self.grid)
        corners = (self._rows @ image @ self._columns.T).flatten(1)
        highest, lowest = corners.amax(1), corners.amin(1)
        spread = highest - lowest
        flat = _is_flat(spread, highest)
        spread = torch.where(flat, torch.ones_like(spread), spread)
        lift = torch.where(flat, torch.zeros_like(spread), 1.0 / spread)
        inside = ((maps * weights).sum(1) - lowest * areas) * lift
        total = (maps @ self._ones - lowest * self._pixels) * lift
        above, below = 2.0 * inside + 1.0, total + areas + 1.0
        loss = 1.0 - above / below
        by_inside, by_total = -2.0 / below, above / below**2
        # d/d map at fixed extremes, then through the pixels that are the extremes.
        grad = (by_inside * lift)[:, None] * weights + (by_total * lift)[:, None] * self._ones
        by_highest = -(by_inside * inside + by_total * total) * lift
        by_lowest = (by_inside * (inside - areas) + by_total * (total - self._pixels)) * lift
        peaks = by_highest[:, None] * _shared(corners == highest[:, None])
        peaks += by_lowest[:, None] * _shared(corners == lowest[:, None])
        peaks = peaks.reshape(len(maps), len(self._rows), len(self._columns))
        return loss, grad + (self._rows.T @ peaks @ self._columns).flatten(1)

    def overlaps(self, maps: Tensor, threshold: float = 0.5) -> npt.NDArray[np.float32]:
        """Intersection over union (N,) of the heatmaps above ``threshold`` and the masks.

        Compared at the input's pixels; a pixel belongs to a mask that covers half of it or more,
        and to a mask smaller than that wherever it covers most.
        """
        found = np.empty(len(self._regions), dtype=np.float32)
        rows = self._area[0].to(self._rows_kind)
        for index, region in enumerate(self._regions):
            heat = upsample_maps(maps[index : index + 1], self.grid, self.input_size)[0]
            y0, x0, y1, x1 = region.bbox
            cover = (rows[:, y0:y1] @ self._mask(region)).double()
            cover = cover @ self._area[1][:, x0:x1].T
            mask = (cover >= min(0.5, float(cover.max())) * (1 - _EVEN)).numpy()
            hot = heat.cpu().numpy() > threshold
            found[index] = (hot & mask).sum() / max(1, (hot | mask).sum())
        return found

    def _mask(self, region: Region) -> Tensor:
        return torch.from_numpy(region.mask).to(self._rows_kind)


def _total(mask: npt.NDArray[np.generic]) -> float:
    """Sum of a mask, bool or 0..1."""
    return float(np.count_nonzero(mask) if mask.dtype.kind == "b" else mask.sum())


def _is_flat(spread: Tensor, highest: Tensor) -> Tensor:
    """Whether maps of these spreads and largest values are constant but for rounding."""
    return spread <= _FLAT * highest.abs().clamp_min(torch.finfo(spread.dtype).tiny)


def _shared(ties: Tensor) -> Tensor:
    """Share a gradient evenly between equal extremes, as torch's amax does."""
    return ties / ties.sum(1, keepdim=True)


def upsample_maps(
    maps: Tensor,
    grid: tuple[int, int],
    input_size: tuple[int, int],
    out_size: tuple[int, int] | None = None,
) -> Tensor:
    """Heatmaps (M, H, W) in 0..1 of token maps (M, tokens).

    Upsampled bilinearly to the model's input, stretched to 0..1 there, and only then interpolated
    to ``out_size``, in this order (the published implementation's). A constant map becomes 0.
    """
    image = maps.reshape(len(maps), 1, *grid)
    heat = functional.interpolate(image, size=input_size, mode="bilinear", align_corners=False)
    lowest, highest = heat.amin((2, 3), keepdim=True), heat.amax((2, 3), keepdim=True)
    spread = highest - lowest
    flat = _is_flat(spread, highest)
    heat = torch.where(flat, torch.zeros_like(heat), (heat - lowest) / spread.masked_fill(flat, 1))
    if out_size is not None and tuple(out_size) != tuple(input_size):
        heat = functional.interpolate(heat, size=out_size, mode="bilinear", align_corners=False)
    return heat[:, 0]


def upsample_heatmap(
    grid_map: npt.ArrayLike, input_size: tuple[int, int], out_size: tuple[int, int] | None = None
) -> npt.NDArray[np.float32]:
    """Heatmap (H, W), float32 in 0..1, of one token map (grid_h, grid_w); see `upsample_maps`."""
    tokens = torch.as_tensor(np.array(grid_map, dtype=np.float32))
    grid = (int(tokens.shape[0]), int(tokens.shape[1]))
    heat = upsample_maps(tokens.reshape(1, -1), grid, input_size, out_size)[0]
    return np.asarray(heat.numpy(), dtype=np.float32)
