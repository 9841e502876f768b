"""The protocol of explainability maps, and the correction that some towers need."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class ExplainabilityMap(Protocol):
    """Maps of embeddings on one image, and their vector-Jacobian product.

    Embeddings are independent. Maps scale with the embedding's length: for c > 0, the map of
    ``c * embedding`` is ``c`` times the map of ``embedding``. (The explained score is a cosine;
    with this convention, no map needs to normalise.)
    """

    group_size: int  # Most embeddings that `forward` takes at once

    def forward(self, embeddings: Tensor) -> Tensor:
        """Compute token maps (M, patches) of embeddings (M, e); keep what `vjp` needs."""

    def forward_start(self) -> Tensor:
        """Compute the token map (1, patches) of the image's own embedding, as `forward` does."""

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) for the gradient (M, patches) of the last maps.

        If the last `forward` had a single embedding, ``grad`` may have any number of rows.
        """


class WithoutEmpty:
    """A map that is zero where the map of an "empty" prompt is high.

    Towers that pool by attention (SigLIP) attend to a few tokens for any prompt. These are removed,
    as the authors of LeGrad do: where the map of the prompt's embedding ``empty`` (e,) is above
    0.8, normalised to 0..1.
    """

    def __init__(self, explained: ExplainabilityMap, empty: Tensor) -> None:
        self._explained = explained
        self.group_size = explained.group_size
        empty_map = explained.forward(empty[None])[0]
        low = empty_map.min()
        high = empty_map.max()
        self.kept = (empty_map - low) <= 0.8 * (high - low)

    def forward(self, embeddings: Tensor) -> Tensor:
        """See `ExplainabilityMap.forward`."""
        return self._explained.forward(embeddings) * self.kept

    def forward_start(self) -> Tensor:
        """See `ExplainabilityMap.forward_start`."""
        return self._explained.forward_start() * self.kept

    def vjp(self, grad: Tensor) -> Tensor:
        """See `ExplainabilityMap.vjp`."""
        return self._explained.vjp(grad * self.kept)
