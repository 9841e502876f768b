"""The slopes of all tokens as mixtures of a few.

Most of what a LeGrad map costs is one product of (n tokens, m hidden units) with (m, d): each token
has its own slopes of the MLP's activation. Neighbouring tokens have similar ones, so n rows of
slopes are close to mixtures of r rows, and mixing r products of a row costs r / n of it. Unlike
leaving out query tokens this keeps every query, and with it the places of the map's extremes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from .encoding import LayerConstants

# Rows of the first sketch, and the largest share of the tokens that is worth it.
_SKETCH: Final = 96
_MOST: Final = 0.7
# A matrix product likes multiples of this.
_STEP: Final = 8


def compress(layer: LayerConstants, tolerance: float) -> LayerConstants | None:
    """Constants whose slopes are mixtures of as few rows as keep the error below a tolerance.

    A randomised range finder with one power iteration (Halko, Martinsson and Tropp, SIAM Review 53,
    2011) on the slopes, each hidden unit weighted by how much of the query vectors comes from it.

    Parameters
    ----------
    layer : LayerConstants
        Of all query tokens.
    tolerance : float
        Root of the share of the weighted slopes' square sum that may be lost, 0..1.

    Returns
    -------
    LayerConstants or None
        With ``slope`` (r, m) and ``mixing`` (n, r); None where r is over seven tenths of n.
    """
    slope = layer.slope
    weight = (layer.jacobian @ layer.down).norm(dim=0) * layer.mixed.norm(dim=1)
    weighted = slope * weight
    whole = weighted.square().sum()
    most = min(int(len(slope) * _MOST), slope.shape[1])
    size = min(_SKETCH, most)
    while size >= 1:
        basis, strengths, rows = _strongest(weighted, size)
        lost = whole - strengths.cumsum(0)
        enough = (lost <= tolerance**2 * whole).nonzero()
        if len(enough):
            count = min(size, -(-(int(enough[0]) + 1) // _STEP) * _STEP)
            kept = rows[:count] * torch.where(weight > 0, 1 / weight, 0)
            return replace(layer, slope=kept.contiguous(), mixing=basis[:, :count].contiguous())
        if size == most:
            break
        size = min(2 * size, most)
    return None


def _strongest(matrix: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Strongest directions of a matrix (n, m): (n, count), their square sums, (count, m)."""
    # The same numbers on every device and in every call.
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(matrix.shape[1], count, generator=generator).to(matrix)
    found = torch.linalg.qr(matrix @ random).Q
    found = torch.linalg.qr(matrix @ (matrix.T @ found)).Q
    inner = found.T @ matrix
    strengths, turn = torch.linalg.eigh(inner @ inner.T)
    turn = turn.flip(1)
    return found @ turn, strengths.flip(0), turn.T @ inner
