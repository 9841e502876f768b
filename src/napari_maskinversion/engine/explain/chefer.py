"""CheferCAM maps (arXiv 2103.15679), with a backward pass derived by hand.

Relevance flows from [CLS] through the explained layers, from the last one down: ``r`` becomes
``r + r C`` with ``C = mean over heads of ReLU(gradient * A)``. The attention gradients are those of
LeGrad: each layer's is of the score of that layer's own tokens. At the last layer only the query of
[CLS] counts, so with one layer a map costs next to nothing. Where a tower pools by attention, its
one query takes the place of [CLS].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ...base.errors import ConfigError
from ..encode.attention_layer import AttentionLayer, AutogradRoute
from ..encode.image_encoding import ImageEncoding, LayerConstants
from .projections import DirectRoute


class CheferCam:
    """CheferCAM maps of embeddings on one image.

    Parameters
    ----------
    layers : sequence of AttentionLayer
        Explained layers, the last one last; that one has a single query.
    start : Tensor, shape (e,)
        The image's own embedding.
    memory_bytes : int
        About what the tensors of one group may take.
    """

    def __init__(self, layers: Sequence[AttentionLayer], start: Tensor, memory_bytes: int) -> None:
        self._layers, self._start = list(layers), start
        heads, tokens, width = layers[0].values.shape
        queries = layers[0].route.num_queries
        # p and its gradient of each layer, and a head's attention gradients three times over.
        numbers = 2 * len(layers) * queries * heads * width + 3 * queries * tokens
        self.group_size = max(1, memory_bytes // (numbers * start.element_size()))
        self._relevance: list[Tensor] = []
        self._unit = self._maps = start.new_empty(0)

    def forward(self, embeddings: Tensor) -> Tensor:
        """As in `ExplainabilityMap`."""
        lengths = embeddings.norm(dim=1, keepdim=True).clamp_min(1e-12)
        self._unit = embeddings / lengths
        self._relevance = []
        relevance = embeddings.new_ones(len(embeddings), 1)
        for layer in reversed(self._layers):
            self._relevance.insert(0, relevance)
            layer.evaluate(self._unit)
            relevance = _flow(layer, relevance)
        self._maps = relevance[:, self._layers[0].prefix :]
        maps: Tensor = self._maps * lengths
        return maps

    def forward_start(self) -> Tensor:
        """As in `ExplainabilityMap`."""
        return self.forward(self._start[None])

    def vjp(self, grad: Tensor) -> Tensor:
        """As in `ExplainabilityMap`."""
        none = grad.new_zeros(len(grad), self._layers[0].prefix)
        after = torch.cat([none, grad], dim=1)
        total = grad.new_zeros(len(grad), self._unit.shape[1])
        for layer, relevance in zip(self._layers, self._relevance, strict=True):
            after, pulled = _flow_back(layer, relevance, after)
            total += layer.route.vjp(pulled)
        along = (total * self._unit).sum(1, keepdim=True)
        return total + ((grad * self._maps).sum(1, keepdim=True) - along) * self._unit


def _flow(layer: AttentionLayer, relevance: Tensor) -> Tensor:
    """Relevance (M, n) of all tokens from that of the layer's queries (M, q)."""
    found = relevance.new_zeros(len(relevance), layer.values.shape[1])
    if not layer.pooling:
        found[:, : relevance.shape[1]] = relevance
    for head, gradient in enumerate(layer.gradients()):
        flow = gradient.relu_().mul_(layer.weights(head))
        found += torch.bmm(relevance[:, None], flow)[:, 0]
    return found


def _flow_back(layer: AttentionLayer, relevance: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of the relevance (M, q) before the layer, and of p (M, q, d)."""
    count, width = relevance.shape[1], layer.values.shape[2]
    before = after[:, :count].clone()
    pulled = after.new_empty(len(after), *layer.p.shape[1:])
    for head, gradient in enumerate(layer.gradients()):
        passed = gradient.gt(0) * layer.weights(head)
        before += ((gradient * passed) @ after[:, :, None])[:, :, 0]
        back = (passed * after[:, None]) @ layer.values[head]
        pulled[:, :, head * width : (head + 1) * width] = back * relevance[:, :, None]
    return before, pulled


def chefer_layer(layer: LayerConstants | AttentionLayer, *, last: bool) -> AttentionLayer:
    """Give a layer as CheferCAM sees it; of the last one, the first token's query alone.

    Raises
    ------
    ConfigError
        If the layer does not say what its attention is made of.
    """
    if isinstance(layer, AttentionLayer):
        if layer.pooling:
            return layer
        if not last or not isinstance(layer.route, AutogradRoute):
            return layer
        return replace(layer, route=layer.route.first(1), queries=layer.queries[:, :1])
    inputs = layer.inputs
    if inputs is None or layer.coefficients is not None:
        raise ConfigError("CheferCAM needs the tokens that enter each explained layer.")
    queries, values = inputs.queries(), layer.values
    if last:
        queries = queries[:, :1]
        layer = replace(layer, slope=layer.slope[:1], bend=layer.bend[:1], offset=layer.offset[:1])
    return AttentionLayer(DirectRoute(layer), values, queries, inputs.keys())


def make_chefer(encoding: ImageEncoding, memory_bytes: int) -> CheferCam:
    """Make CheferCAM of an encoded image."""
    *others, last = encoding.layers or encoding.general
    layers = [chefer_layer(layer, last=False) for layer in others]
    return CheferCam([*layers, chefer_layer(last, last=True)], encoding.embedding, memory_bytes)
