"""AdamW for one tensor whose gradient is known."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

# PyTorch's own, which the published setting uses.
BETAS: Final = (0.9, 0.999)
EPSILON: Final = 1e-8


class AdamW:
    """Decoupled weight decay (Loshchilov and Hutter 2019), number for number as PyTorch's.

    PyTorch's optimiser imports its compiler, which takes longer than a first inversion.

    Parameters
    ----------
    values : Tensor
        Changed in place by each step.
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
            Of the shape of the values.
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
        """Give an optimiser of ``values`` that stands where this one does in its ``rows``."""
        other = AdamW(values, learning_rate=self._rate, weight_decay=self._decay)
        other._mean, other._square = self._mean[rows], self._square[rows]
        other._steps = self._steps
        return other

    def adopt(self, rows: Tensor, other: AdamW) -> None:
        """Take over values and state of ``rows`` from an optimiser of them at the same step."""
        assert other._steps == self._steps
        self._values[rows] = other._values
        self._mean[rows], self._square[rows] = other._mean, other._square
