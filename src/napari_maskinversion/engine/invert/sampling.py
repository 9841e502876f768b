"""Which steps of an inversion are exact, and what the others leave out.

Two ways to do less. The map averages over all query tokens, and a regular subgrid of them estimates
the same average at a fraction of the cost (``query_stride``). Or every query token stays and its
vector is made from fewer products (`LowRankSlopes`). "auto" does both, where it was seen to agree
with the exact map (`anchored`). What is returned is evaluated exactly in any case.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch

from ...base.errors import ConfigError
from ..encode.image_encoding import LayerConstants

# Measured by benchmarks/sampling.py; see docs/speed.md.
# Steps before those with a stride: what errs in them grows.
EXACT_STEPS = 3
# Error of the slopes that "auto" allows before anything is compared.
AUTO_SLOPES = 0.2
# How far its gradients may be from the checked ones in the second step: of all queries, of some.
AUTO_GRADIENTS = (0.05, 0.03)
# From so many tokens a side on it tries every second row and column; from so many every third.
_AUTO_GRIDS = (10, 24)


@dataclass(frozen=True, slots=True)
class Sampling:
    """What inexact steps leave out.

    Attributes
    ----------
    stride : int
        Every so-many-th row and column of query tokens is kept in inexact steps; 1 keeps all.
    anchored : bool
        Estimates are corrected and watched, see `anchored`.
    """

    stride: int = 1
    anchored: bool = False


def choose_sampling(query_stride: int | Literal["auto"], grid: tuple[int, int]) -> Sampling:
    """Sampling for a grid of tokens.

    Raises
    ------
    ConfigError
        If the stride keeps less than two rows or columns of the grid.
    """
    if query_stride == "auto":
        return Sampling(1 + sum(min(grid) >= side for side in _AUTO_GRIDS), anchored=True)
    if query_stride > 1 and query_stride * 2 > min(grid):
        raise ConfigError(
            f"query_stride is {query_stride} but the image has only {grid[0]} x {grid[1]} tokens; "
            f"use at most {max(1, min(grid) // 2)}, or 'auto'."
        )
    return Sampling(query_stride)


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
