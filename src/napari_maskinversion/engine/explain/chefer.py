"""CheferCAM maps (arXiv 2103.15679), with a hand-written backward pass.

Relevance flows from [CLS] through the explained layers, starting at the last one: ``r`` becomes
``r + r C`` with ``C = mean over heads of ReLU(gradient * A)``. Attention gradients are those of
LeGrad: for each layer, of the score of its own tokens. At the last layer only the query of [CLS]
counts, so with one layer a map costs almost nothing. In towers that pool by attention, the pooling
query takes the place of [CLS].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ..encode.attention import AttentionLayer, AutogradRoute
from ..encode.image_encoding import ImageEncoding, LayerConstants
from .routes import DirectRoute


class _CheferCam:
    """CheferCAM maps of embeddings on one image; the last layer has a single query.

    ``start`` (e,) is the image's own embedding; ``memory_bytes`` are for one group of masks.
    """

    def __init__(self, layers: Sequence[AttentionLayer], start: Tensor, memory_bytes: int) -> None:
        self._layers = layers
        self._start = start
        self._relevance: list[Tensor] = []
        self._unit = self._maps = start.new_empty(0)
        heads, tokens, width = layers[0].values.shape
        queries = layers[0].route.num_queries
        # p and its gradient for each layer, and three tensors like the attention of one head.
        numbers = 2 * len(layers) * queries * heads * width + 3 * queries * tokens
        self.group_size = max(1, memory_bytes // (numbers * start.element_size()))

    def forward(self, embeddings: Tensor) -> Tensor:
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
        return self.forward(self._start[None])

    def vjp(self, grad: Tensor) -> Tensor:
        prefix = grad.new_zeros(len(grad), self._layers[0].prefix)
        after = torch.cat([prefix, grad], dim=1)
        total = grad.new_zeros(len(grad), self._unit.shape[1])
        for layer, relevance in zip(self._layers, self._relevance, strict=True):
            after, p_gradient = _flow_vjp(layer, relevance, after)
            total += layer.route.vjp(p_gradient)
        along = (total * self._unit).sum(1, keepdim=True)
        return total + ((grad * self._maps).sum(1, keepdim=True) - along) * self._unit


def _flow(layer: AttentionLayer, relevance: Tensor) -> Tensor:
    """Return the relevance (M, n) of all tokens; the queries of the layer have (M, q)."""
    tokens = relevance.new_zeros(len(relevance), layer.values.shape[1])
    if not layer.pooling:
        tokens[:, : relevance.shape[1]] = relevance
    for head, gradient in enumerate(layer.gradients()):
        flow = gradient.relu_().mul_(layer.weights(head))
        tokens += torch.bmm(relevance[:, None], flow)[:, 0]
    return tokens


def _flow_vjp(layer: AttentionLayer, relevance: Tensor, after: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of the layer's input relevance (M, q), and of p (M, q, d)."""
    count = relevance.shape[1]
    width = layer.values.shape[2]
    before = after[:, :count].clone()
    p_gradient = after.new_empty(len(after), *layer.p.shape[1:])
    for head, gradient in enumerate(layer.gradients()):
        passed = gradient.gt(0) * layer.weights(head)
        before += ((gradient * passed) @ after[:, :, None])[:, :, 0]
        vectors = (passed * after[:, None]) @ layer.values[head]
        p_gradient[:, :, head * width : (head + 1) * width] = vectors * relevance[:, :, None]
    return before, p_gradient


def chefer_layer(layer: LayerConstants | AttentionLayer, *, last: bool) -> AttentionLayer:
    """Return a layer for CheferCAM; the last one has only the first token's query."""
    if isinstance(layer, AttentionLayer):
        if not last or not isinstance(layer.route, AutogradRoute):
            return layer
        return replace(layer, route=layer.route.first(1), queries=layer.queries[:, :1])
    inputs = layer.inputs
    assert inputs is not None
    queries = inputs.queries()
    values = layer.values
    if last:
        queries = queries[:, :1]
        layer = replace(layer, slope=layer.slope[:1], bend=layer.bend[:1], offset=layer.offset[:1])
    return AttentionLayer(DirectRoute(layer), values, queries, inputs.keys())


def make_chefer(encoding: ImageEncoding, memory_bytes: int) -> _CheferCam:
    """Make CheferCAM of an encoded image."""
    *earlier, last = encoding.layers or encoding.general
    layers = [chefer_layer(layer, last=False) for layer in earlier]
    return _CheferCam([*layers, chefer_layer(last, last=True)], encoding.embedding, memory_bytes)
