"""Low-rank slopes: the slopes of all tokens as combinations of a few rows.

Most of the cost of a LeGrad map is one product of (n tokens, m hidden units) with (m, d), since
each token has its own slopes of the MLP's activation. Neighbouring tokens have similar slopes, so
the n rows are close to combinations of r rows, and r / n of the products are enough. Unlike
sampling query tokens, this keeps every query and with it the places of the map's extremes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from ..compute.devices import on_cpu
from ..compute.matmul import multiply
from ..encode.image_encoding import LayerConstants

# Relative error allowed to the slopes of `fast`.
SLOPE_TOLERANCE: Final = 0.2
# Sizes of the sketches as fractions of the tokens; above the last it does not pay.
_SKETCHES: Final = (1 / 16, 1 / 4)
# Ranks are multiples of this, for fast matrix products.
_STEP: Final = 4


@torch.no_grad()
def compress(layer: LayerConstants, tolerance: float = SLOPE_TOLERANCE) -> LayerConstants | None:
    """Return a layer with slopes of the lowest rank whose error stays below the tolerance.

    A randomised range finder with one power iteration (Halko, Martinsson and Tropp, SIAM Review 53,
    2011) on the slopes. Hidden units are weighted by their share in the query vectors.
    """
    reach = multiply(layer.jacobian, layer.weights.down)
    mixed = layer.weights.mixed
    weight = reach.norm(dim=0) * mixed.norm(dim=1)
    weighted = layer.slope * weight
    whole = weighted.square().sum()
    allowed = tolerance**2 * whole
    most = min(weighted.shape)
    sizes = [max(1, int(len(layer.slope) * share)) for share in _SKETCHES]
    sizes = [size for size in sizes if size < most] or [most]
    for size in sizes:
        basis, strengths, rows = _strongest(weighted, size)
        lost = whole - strengths.cumsum(0)
        enough = (lost <= allowed).nonzero()
        if len(enough):
            count = min(size, -(-(int(enough[0]) + 1) // _STEP) * _STEP)
            slope = rows[:count] * torch.where(weight > 0, 1 / weight, 0)
            coefficients = basis[:, :count].contiguous()
            return replace(layer, slope=slope.contiguous(), coefficients=coefficients)
        # Further directions are no stronger than the weakest of these.
        if lost[-1] - (sizes[-1] - size) * strengths[-1] > allowed:
            break
    return None


def _strongest(matrix: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a matrix's (n, m) strongest directions: (n, count), squared norms, (count, m)."""
    # Seeded, so that every device and every call gives the same numbers.
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(matrix.shape[1], count, generator=generator).to(matrix)
    basis = _orthonormal(multiply(matrix, random))
    basis = _orthonormal(multiply(matrix, multiply(matrix.T, basis)))
    inner = multiply(basis.T, matrix)
    # On the CPU: Apple's GPUs have neither eigh nor qr.
    strengths, rotation = torch.linalg.eigh((inner @ inner.T).cpu())
    strengths = strengths.to(matrix)
    rotation = rotation.to(matrix).flip(1)
    return basis @ rotation, strengths.flip(0), multiply(rotation.T, inner)


def _orthonormal(vectors: Tensor) -> Tensor:
    return on_cpu(lambda matrix: torch.linalg.qr(matrix).Q, vectors)
