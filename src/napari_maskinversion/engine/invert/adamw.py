"""AdamW for one tensor with a given gradient."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

# PyTorch's defaults, as in the published setting.
BETAS: Final = (0.9, 0.999)
EPSILON: Final = 1e-8


class AdamW:
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019); same numbers as PyTorch's.

    PyTorch's optimiser imports its compiler, which takes longer than a first inversion.

    Parameters
    ----------
    values : Tensor
        Each step changes them in place.
    learning_rate, weight_decay : float
    """

    def __init__(self, values: Tensor, *, learning_rate: float, weight_decay: float) -> None:
        self._values, self._rate, self._decay = values, learning_rate, weight_decay
        self._mean, self._square = torch.zeros_like(values), torch.zeros_like(values)
        self._steps = 0

    @torch.no_grad()
    def step(self, gradient: Tensor) -> None:
        """Take one step.

        Parameters
        ----------
        gradient : Tensor
            Same shape as the values.
        """
        self._steps += 1
        first, second = BETAS
        self._values.mul_(1 - self._rate * self._decay)
        self._mean.lerp_(gradient, 1 - first)
        self._square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        length = self._square.sqrt() / (1 - second**self._steps) ** 0.5
        rate = self._rate / (1 - first**self._steps)
        self._values.addcdiv_(self._mean, length.add_(EPSILON), value=-rate)

    def part(self, rows: Tensor, values: Tensor) -> AdamW:
        """Return an optimiser of ``values`` with the moments of these rows."""
        other = AdamW(values, learning_rate=self._rate, weight_decay=self._decay)
        other._mean, other._square = self._mean[rows], self._square[rows]
        other._steps = self._steps
        return other

    def adopt(self, rows: Tensor, other: AdamW) -> None:
        """Copy parameters and moments back into these rows from an optimiser at the same step."""
        assert other._steps == self._steps
        self._values[rows] = other._values
        self._mean[rows], self._square[rows] = other._mean, other._square
