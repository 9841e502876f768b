"""Correction of maps by the map of an "empty" prompt."""

from __future__ import annotations

from torch import Tensor

from .protocol import ExplainabilityMap


class WithoutEmpty:
    """A map that is zero where the map of an "empty" prompt is high.

    Towers that pool by attention (SigLIP) attend to a few tokens for any prompt. These are removed,
    as the authors of LeGrad do: where the map of the prompt's embedding ``empty`` (e,) is above the
    threshold, stretched to 0..1.
    """

    def __init__(self, explained: ExplainabilityMap, empty: Tensor, threshold: float = 0.8) -> None:
        self._explained = explained
        self.group_size = explained.group_size
        empty_map = explained.forward(empty[None])[0]
        low, high = empty_map.min(), empty_map.max()
        self.kept = (empty_map - low) <= threshold * (high - low)

    def forward(self, embeddings: Tensor) -> Tensor:
        """See `ExplainabilityMap.forward`."""
        return self._explained.forward(embeddings) * self.kept

    def forward_start(self) -> Tensor:
        """See `ExplainabilityMap.forward_start`."""
        return self._explained.forward_start() * self.kept

    def vjp(self, grad: Tensor) -> Tensor:
        """See `ExplainabilityMap.vjp`."""
        return self._explained.vjp(grad * self.kept)
