"""Which query tokens the steps of an inversion average over.

The map averages over all query tokens, and neighbouring ones agree, so a regular subgrid of them
estimates the same average at a fraction of the cost. The soft Dice loss depends on where the map's
largest and smallest pixels lie: a wrong guess of these turns the whole gradient, and turns made
early grow. So the first steps are exact, and where a wrong guess is likely "auto" samples no map at
all, only the gradient taken back through an exact one. What is returned is evaluated exactly in any
case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from .encoding import LayerConstants
from .errors import ConfigError

# Measured by benchmarks/sampling.py; see docs/speed.md.
_EXACT_STEPS = 3
_AUTO_STRIDE = 3
# "auto" is exact where a side has fewer tokens: not measured, and there is little to save.
_AUTO_GRID = 12


@dataclass(frozen=True, slots=True)
class Sampling:
    """Where the steps are exact and where they are not.

    Attributes
    ----------
    exact_steps : int
        So many steps from the first one on are exact; the attributes below are about the others.
    stride : int
        Every so-many-th row and column of query tokens is kept; 1 keeps all.
    exact_maps : bool
        Only the gradient is sampled, never the map.
    tolerance : float
        Error of the slopes, see `compress`; 0 takes them as they are.
    """

    exact_steps: int = 0
    stride: int = 1
    exact_maps: bool = True
    tolerance: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether all steps are."""
        return self.stride == 1 and not self.tolerance


def choose_sampling(query_stride: int | Literal["auto"], grid: tuple[int, int]) -> Sampling:
    """Sampling for a grid of tokens.

    Raises
    ------
    ConfigError
        If the stride keeps less than two rows or columns of the grid.
    """
    if query_stride == "auto":
        if min(grid) < _AUTO_GRID:
            return Sampling()
        return Sampling(_EXACT_STEPS, _AUTO_STRIDE)
    if query_stride > 1 and query_stride * 2 > min(grid):
        raise ConfigError(
            f"query_stride is {query_stride} but the image has only {grid[0]} x {grid[1]} tokens; "
            f"use at most {max(1, min(grid) // 2)}, or 'auto'."
        )
    return Sampling(_EXACT_STEPS, int(query_stride), exact_maps=False)


def sampled_rows(grid: tuple[int, int], stride: int) -> torch.Tensor:
    """Indices (q,) of the kept query tokens: [CLS] and a regular subgrid, as central as it goes."""
    ys = torch.arange((grid[0] - 1) % stride // 2, grid[0], stride)
    xs = torch.arange((grid[1] - 1) % stride // 2, grid[1], stride)
    patches = (1 + ys[:, None] * grid[1] + xs).flatten()
    return torch.cat([torch.zeros(1, dtype=patches.dtype), patches])


def sample_queries(
    layer: LayerConstants, grid: tuple[int, int], stride: int
) -> tuple[LayerConstants, float]:
    """Constants of the kept query tokens, and what one patch among them weighs.

    [CLS] keeps its own weight of 1 / n; the kept patches share the rest evenly.
    """
    tokens = grid[0] * grid[1] + 1
    if stride == 1:
        return layer, 1.0 / tokens
    rows = sampled_rows(grid, stride).to(layer.slope.device)
    kept = replace(layer, bend=layer.bend[rows], offset=layer.offset[rows])
    if layer.mixing is None:
        kept = replace(kept, slope=layer.slope[rows])
    else:
        kept = replace(kept, mixing=layer.mixing[rows])
    return kept, (tokens - 1) / tokens / (len(rows) - 1)
