"""The protocol of explainability maps, and what those of attention gradients share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from torch import Tensor

from ..encode.attention_layer import AttentionLayer


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


class AttentionMap(ExplainabilityMap):
    """Base of the `ExplainabilityMap`s made of the attention gradients of any tower.

    ``start`` (e,) is the image's own embedding; ``memory_bytes`` are about those of the tensors of
    one group.
    """

    gradients_held: ClassVar[int]
    """Attention gradients of one head that are in memory at a time."""

    def __init__(self, layers: Sequence[AttentionLayer], start: Tensor, memory_bytes: int) -> None:
        self._layers, self._start = list(layers), start
        heads, tokens, width = layers[0].values.shape
        queries = layers[0].route.num_queries
        # p and its gradient for each layer, and the attention gradients of one head.
        numbers = 2 * len(layers) * queries * heads * width + self.gradients_held * queries * tokens
        self.group_size = max(1, memory_bytes // (numbers * start.element_size()))

    def forward_start(self) -> Tensor:
        """See `ExplainabilityMap.forward_start`."""
        return self.forward(self._start[None])
