"""CheferCAM maps (arXiv 2103.15679), with a backward pass derived by hand.

Relevance flows from [CLS] through the explained layers, from the last one down: ``r`` becomes
``r + r C`` with ``C = mean over heads of ReLU(gradient * A)``. The attention gradients are those of
LeGrad: each layer's is of the score of that layer's own tokens. At the last layer only the query of
[CLS] counts, so with one layer a map costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ..attention import attention
from ..encoding import LayerConstants
from ..errors import ConfigError
from .queries import DirectRoute, Route


@dataclass(slots=True)
class CheferLayer:
    """One explained layer.

    Attributes
    ----------
    route : Route
        To the p of its query tokens.
    values : (h, n, w)
        Value vectors of all tokens.
    queries, keys : (h, q, w), (h, n, w)
        What its attention is made of: head by head, so that no (h, n, n) is held.
    """

    route: Route
    values: Tensor
    queries: Tensor
    keys: Tensor
    p: Tensor = field(init=False)
    relevance: Tensor = field(init=False)

    def weights(self, head: int) -> Tensor:
        """Attention (q, n) of one head, over the number of heads."""
        return attention(self.queries[head], self.keys[head]) / len(self.values)

    def gradients(self) -> Iterator[Tensor]:
        """Yield the attention gradients (M, q, n), head by head."""
        width = self.values.shape[2]
        for head, values in enumerate(self.values):
            yield self.p[:, :, head * width : (head + 1) * width] @ values.T


class CheferCam:
    """CheferCAM maps of embeddings on one image.

    Parameters
    ----------
    layers : sequence of LayerConstants
        Explained layers, the last one last.
    start : Tensor, shape (e,)
        The image's own embedding.
    memory_bytes : int
        About what the tensors of one group may take.
    """

    def __init__(self, layers: Sequence[LayerConstants], start: Tensor, memory_bytes: int) -> None:
        *others, last = layers
        self._layers = [*(_layer(one) for one in others), _layer(last, only_cls=True)]
        self._start = start
        heads, tokens, width = last.values.shape
        queries = tokens if others else 1
        # p and its gradient of each layer, and a head's attention gradients three times over.
        numbers = 2 * len(layers) * queries * heads * width + 3 * queries * tokens
        self.group_size = max(1, memory_bytes // (numbers * start.element_size()))
        self._unit = self._lengths = self._maps = start.new_empty(0)

    def forward(self, embeddings: Tensor) -> Tensor:
        """As in `ExplainabilityMap`."""
        self._lengths = embeddings.norm(dim=1, keepdim=True).clamp_min(1e-12)
        self._unit = embeddings / self._lengths
        relevance = embeddings.new_ones(len(embeddings), 1)
        for layer in reversed(self._layers):
            layer.relevance = relevance
            shape = len(embeddings), layer.route.num_queries, layer.values[:, 0].numel()
            layer.p = embeddings.new_empty(shape)
            layer.route.queries(self._unit, layer.p)
            relevance = self._flow(layer)
        self._maps = relevance[:, 1:]
        return self._maps * self._lengths

    def forward_start(self) -> Tensor:
        """As in `ExplainabilityMap`."""
        return self.forward(self._start[None])

    def pull_back(self, grad: Tensor) -> Tensor:
        """As in `ExplainabilityMap`."""
        after = torch.cat([grad.new_zeros(len(grad), 1), grad], dim=1)
        total = grad.new_zeros(len(grad), self._unit.shape[1])
        for layer in self._layers:
            after, pulled = self._flow_back(layer, after)
            total += layer.route.pull_back(pulled)
        along = (total * self._unit).sum(1, keepdim=True)
        return total - along * self._unit + (grad * self._maps).sum(1, keepdim=True) * self._unit

    def _flow(self, layer: CheferLayer) -> Tensor:
        """Relevance (M, n) of all tokens from that of the layer's queries."""
        tokens = layer.values.shape[1]
        found = layer.p.new_zeros(len(layer.p), tokens)
        found[:, : layer.relevance.shape[1]] = layer.relevance
        for head, gradient in enumerate(layer.gradients()):
            flow = gradient.relu_().mul_(layer.weights(head))
            found += torch.bmm(layer.relevance[:, None], flow)[:, 0]
        return found

    def _flow_back(self, layer: CheferLayer, after: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of the relevance (M, q) before the layer, and of p (M, q, d)."""
        count, width = layer.relevance.shape[1], layer.values.shape[2]
        before = after[:, :count].clone()
        pulled = after.new_empty(len(after), *layer.p.shape[1:])
        for head, gradient in enumerate(layer.gradients()):
            weights = layer.weights(head)
            passed = gradient.gt(0) * weights
            before += ((gradient * passed) @ after[:, :, None])[:, :, 0]
            back = (passed * after[:, None]) @ layer.values[head]
            pulled[:, :, head * width : (head + 1) * width] = back * layer.relevance[:, :, None]
        return before, pulled


def _layer(constants: LayerConstants, *, only_cls: bool = False) -> CheferLayer:
    inputs = constants.inputs
    if inputs is None or constants.mixing is not None:
        raise ConfigError("CheferCAM needs the tokens that enter each explained layer.")
    queries = inputs.queries()
    if only_cls:
        queries = queries[:, :1]
        constants = replace(
            constants,
            slope=constants.slope[:1],
            bend=constants.bend[:1],
            offset=constants.offset[:1],
        )
    return CheferLayer(DirectRoute(constants), constants.values, queries, inputs.keys())
