"""Query tokens that a fast inversion leaves out.

The map averages over all query tokens; a regular subgrid of them estimates the same average at a
fraction of the cost. `surrogate` checks each estimate against the exact map.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from ..encode.image_encoding import LayerConstants

# Measured by benchmarks/sampling.py; see docs/speed.md.
# Relative error allowed to the low-rank slopes.
SLOPE_TOLERANCE = 0.2
# How far an estimated gradient may be from the checked one in the second step, relative to its
# length: with all query tokens, with some.
GRADIENT_TOLERANCES = (0.05, 0.03)
# Tokens per side from which every second row and column is tried, and every third.
_STRIDE_GRIDS = (10, 24)


def coarsest_stride(grid: tuple[int, int]) -> int:
    """Return the largest stride to try on a grid of tokens (rows, columns)."""
    return 1 + sum(min(grid) >= side for side in _STRIDE_GRIDS)


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
    if layer.coefficients is None:
        kept = replace(kept, slope=layer.slope[rows])
    else:
        kept = replace(kept, coefficients=layer.coefficients[rows])
    return kept, (tokens - 1) / tokens / (len(rows) - 1)
