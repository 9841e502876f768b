"""The protocol of explainability maps, and what several of them share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from torch import Tensor

from ..encode.attention import AttentionLayer


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
