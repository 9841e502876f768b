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

from ..compute.matmul import multiply
from ..encode.image_encoding import LayerConstants

# Sizes of the sketches, as shares of the tokens; the last is the largest that is worth it.
_SKETCHES: Final = (1 / 16, 1 / 4)
# A matrix product likes multiples of this.
_STEP: Final = 4


class LowRankSlopes:
    """The strongest directions of a layer's slopes, found once for any number of tolerances.

    A randomised range finder with one power iteration (Halko, Martinsson and Tropp, SIAM Review 53,
    2011) on the slopes, each hidden unit weighted by how much of the query vectors comes from it.

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
        self._found = _strongest(self._weighted, self._sizes.pop(0))

    def compress(self, tolerance: float) -> LayerConstants | None:
        """Constants whose slopes are mixtures of as few rows as keep the error below a tolerance.

        Parameters
        ----------
        tolerance : float
            Root of the share of the weighted slopes' square sum that may be lost, 0..1.

        Returns
        -------
        LayerConstants or None
            With ``slope`` (r, m) and ``coefficients`` (n, r), the first rows of any finer mixture's
            that was asked for before; None where r would be over a quarter of n.
        """
        allowed = tolerance**2 * self._whole
        while True:
            basis, strengths, rows = self._found
            lost = self._whole - strengths.cumsum(0)
            enough = (lost <= allowed).nonzero()
            if len(enough):
                break
            # The directions not found yet are no stronger than the weakest of those found.
            more = self._sizes[-1] - len(strengths) if self._sizes else 0
            if lost[-1] - more * strengths[-1] > allowed or not more:
                return None
            self._found = _strongest(self._weighted, self._sizes.pop(0))
        count = min(len(strengths), -(-(int(enough[0]) + 1) // _STEP) * _STEP)
        kept = rows[:count] * torch.where(self._weight > 0, 1 / self._weight, 0)
        coefficients = basis[:, :count].contiguous()
        return replace(self._layer, slope=kept.contiguous(), coefficients=coefficients)


def _strongest(matrix: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Strongest directions of a matrix (n, m): (n, count), their square sums, (count, m)."""
    # The same numbers on every device and in every call.
    generator = torch.Generator().manual_seed(0)
    random = torch.randn(matrix.shape[1], count, generator=generator).to(matrix)
    found = torch.linalg.qr(multiply(matrix, random)).Q
    found = torch.linalg.qr(multiply(matrix, multiply(matrix.T, found))).Q
    inner = multiply(found.T, matrix)
    strengths, turn = torch.linalg.eigh(inner @ inner.T)
    turn = turn.flip(1)
    return found @ turn, strengths.flip(0), multiply(turn.T, inner)
