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

from ..compute.matmul import multiply
from ..encode.image_encoding import LayerConstants

# Sizes of the sketches as fractions of the tokens; above the last it does not pay.
_SKETCHES: Final = (1 / 16, 1 / 4)
# Ranks are multiples of this, for fast matrix products.
_STEP: Final = 4


class LowRankSlopes:
    """The strongest directions of a layer's slopes, computed once for any tolerance.

    A randomised range finder with one power iteration (Halko, Martinsson and Tropp, SIAM Review 53,
    2011) on the slopes. Hidden units are weighted by their share in the query vectors.

    Parameters
    ----------
    layer : LayerConstants
        Of all query tokens.
    """

    def __init__(self, layer: LayerConstants) -> None:
        self._layer = layer
        self._weight = multiply(layer.jacobian, layer.down).norm(dim=0) * layer.mixed.norm(dim=1)
        self._weighted = layer.slope * self._weight
        self._whole = self._weighted.square().sum()
        most = min(self._weighted.shape)
        self._sizes = [max(1, int(len(layer.slope) * share)) for share in _SKETCHES]
        self._sizes = [size for size in self._sizes if size < most] or [most]
        self._factors = _strongest(self._weighted, self._sizes.pop(0))

    def compress(self, tolerance: float) -> LayerConstants | None:
        """Return constants with the lowest rank whose error stays below the tolerance.

        Parameters
        ----------
        tolerance : float
            Allowed relative error (Frobenius norm) of the weighted slopes, 0..1.

        Returns
        -------
        LayerConstants or None
            With ``slope`` (r, m) and ``coefficients`` (n, r); None if r would exceed a quarter of
            n. A larger tolerance returns the first rows of a smaller one.
        """
        allowed = tolerance**2 * self._whole
        while True:
            basis, strengths, rows = self._factors
            lost = self._whole - strengths.cumsum(0)
            enough = (lost <= allowed).nonzero()
            if len(enough):
                break
            # Further directions are no stronger than the weakest of these.
            more = self._sizes[-1] - len(strengths) if self._sizes else 0
            if lost[-1] - more * strengths[-1] > allowed or not more:
                return None
            self._factors = _strongest(self._weighted, self._sizes.pop(0))
        count = min(len(strengths), -(-(int(enough[0]) + 1) // _STEP) * _STEP)
        slope = rows[:count] * torch.where(self._weight > 0, 1 / self._weight, 0)
        coefficients = basis[:, :count].contiguous()
        return replace(self._layer, slope=slope.contiguous(), coefficients=coefficients)


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
    strengths, rotation = strengths.to(matrix), rotation.to(matrix).flip(1)
    return basis @ rotation, strengths.flip(0), multiply(rotation.T, inner)


def _orthonormal(vectors: Tensor) -> Tensor:
    basis: Tensor = torch.linalg.qr(vectors.cpu()).Q
    return basis.to(vectors)
