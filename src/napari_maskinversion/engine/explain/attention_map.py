"""What maps made of attention gradients share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from torch import Tensor

from ..encode.attention_layer import AttentionLayer


class AttentionMap(ABC):
    """Base of the `ExplainabilityMap`s made of the attention gradients of any tower.

    Parameters
    ----------
    layers : sequence of AttentionLayer
        Explained layers in the model's order.
    start : Tensor, shape (e,)
        The image's own embedding.
    memory_bytes : int
        Approximate memory for the tensors of one group.
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

    @abstractmethod
    def forward(self, embeddings: Tensor) -> Tensor:
        """See `ExplainabilityMap.forward`."""

    def forward_start(self) -> Tensor:
        """See `ExplainabilityMap.forward_start`."""
        return self.forward(self._start[None])

    @abstractmethod
    def vjp(self, grad: Tensor) -> Tensor:
        """See `ExplainabilityMap.vjp`."""
