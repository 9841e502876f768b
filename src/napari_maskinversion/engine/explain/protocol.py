"""The protocol of explainability maps."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class ExplainabilityMap(Protocol):
    """Maps of embeddings on one image, and their vector-Jacobian product.

    Embeddings are independent. Maps scale with the embedding's length: for c > 0, the map of
    ``c * embedding`` is ``c`` times the map of ``embedding``. (The explained score is a cosine;
    with this convention, no map needs to normalise.)

    Attributes
    ----------
    group_size : int
        Most embeddings that `forward` takes at once.
    """

    group_size: int

    def forward(self, embeddings: Tensor) -> Tensor:
        """Compute token maps (M, patches) of embeddings (M, e); keep what `vjp` needs."""

    def forward_start(self) -> Tensor:
        """Compute the token map (1, patches) of the image's own embedding, as `forward` does."""

    def vjp(self, grad: Tensor) -> Tensor:
        """Return the gradient (M, e) for the gradient (M, patches) of the last maps.

        If the last `forward` had a single embedding, ``grad`` may have any number of rows.
        """
