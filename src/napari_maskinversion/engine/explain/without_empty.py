"""Correction of maps by the map of an "empty" prompt."""

from __future__ import annotations

from torch import Tensor

from .protocol import ExplainabilityMap


class WithoutEmpty:
    """A map that is zero wherever the map of an "empty" prompt is high.

    Towers that pool by attention (SigLIP) look at a few tokens whatever is asked; these are taken
    out, as the authors of LeGrad do.

    Parameters
    ----------
    explained : ExplainabilityMap
    empty : Tensor, shape (e,)
        Embedding of the empty prompt.
    threshold : float
        Of its map, stretched to 0..1.
    """

    def __init__(self, explained: ExplainabilityMap, empty: Tensor, threshold: float = 0.8) -> None:
        self._explained = explained
        self.group_size = explained.group_size
        found = explained.forward(empty[None])[0]
        low, high = found.min(), found.max()
        self.kept = (found - low) <= threshold * (high - low)

    def forward(self, embeddings: Tensor) -> Tensor:
        """As in `ExplainabilityMap`."""
        return self._explained.forward(embeddings) * self.kept

    def forward_start(self) -> Tensor:
        """As in `ExplainabilityMap`."""
        return self._explained.forward_start() * self.kept

    def vjp(self, grad: Tensor) -> Tensor:
        """As in `ExplainabilityMap`."""
        return self._explained.vjp(grad * self.kept)
