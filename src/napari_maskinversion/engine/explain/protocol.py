"""What an inversion needs of an explainability map."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class ExplainabilityMap(Protocol):
    """Maps of embeddings on one image, and the gradient of anything made of them.

    Each embedding is a problem of its own. Maps are scaled by the embedding's length: the map of
    ``c * embedding`` is ``c`` times that of ``embedding``, for c > 0. (The score explained is a
    cosine; with this convention no map needs to normalise.)

    Attributes
    ----------
    group_size : int
        Embeddings to give to `forward` at once, at most.
    """

    group_size: int

    def forward(self, embeddings: Tensor) -> Tensor:
        """Token maps (M, patches) of one group (M, e); what `vjp` needs is kept."""

    def forward_start(self) -> Tensor:
        """Token map (1, patches) of the image's own embedding; as `forward`."""

    def vjp(self, grad: Tensor) -> Tensor:
        """Gradient (M, e) from the gradient (M, patches) of the maps of the last `forward`.

        If that was of a single embedding, ``grad`` may be of any number of maps that share it.
        """
