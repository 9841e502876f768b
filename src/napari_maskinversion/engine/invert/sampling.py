"""Sampling of query tokens for estimates of the map.

The map is an average over all query tokens. A regular subgrid of them estimates the same average at
a fraction of the cost; `surrogate` checks each estimate against the exact map.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from ..encode.image_encoding import LayerConstants

# Measured by benchmarks/sampling.py; see docs/speed.md.
# Relative error allowed to the low-rank slopes.
SLOPE_TOLERANCE = 0.2
# Largest relative error of an estimated gradient in the second step: with all query tokens, and
# with a subgrid of them.
GRADIENT_TOLERANCES = (0.05, 0.03)
# Fewest tokens per side for strides of 2 and of 3.
_STRIDE_GRIDS = (10, 24)


def coarsest_stride(grid: tuple[int, int]) -> int:
    """Return the largest stride to try on a grid of tokens (rows, columns)."""
    return 1 + sum(min(grid) >= side for side in _STRIDE_GRIDS)


def sampled_rows(grid: tuple[int, int], stride: int) -> torch.Tensor:
    """Return the indices (q,) of the sampled query tokens: [CLS] and a centred regular subgrid."""
    ys = torch.arange((grid[0] - 1) % stride // 2, grid[0], stride)
    xs = torch.arange((grid[1] - 1) % stride // 2, grid[1], stride)
    patches = (1 + ys[:, None] * grid[1] + xs).flatten()
    return torch.cat([torch.zeros(1, dtype=patches.dtype), patches])


def sample_queries(
    layer: LayerConstants, grid: tuple[int, int], stride: int
) -> tuple[LayerConstants, float]:
    """Return the constants of the sampled query tokens, and the weight of one patch among them.

    [CLS] keeps its weight of 1 / n; the sampled patches share the rest evenly.
    """
    tokens = grid[0] * grid[1] + 1
    if stride == 1:
        return layer, 1.0 / tokens
    rows = sampled_rows(grid, stride).to(layer.slope.device)
    sampled = replace(layer, bend=layer.bend[rows], offset=layer.offset[rows])
    if layer.coefficients is None:
        sampled = replace(sampled, slope=layer.slope[rows])
    else:
        sampled = replace(sampled, coefficients=layer.coefficients[rows])
    return sampled, (tokens - 1) / tokens / (len(rows) - 1)
