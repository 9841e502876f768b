"""LeGrad of any tower's attention: one or many queries, any number of prefix tokens.

The backward pass computes attention gradients again instead of storing them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..encode.attention import AttentionLayer
from ..encode.image_encoding import ImageEncoding
from .legrad import rows_at_once
from .protocol import AttentionMap


class GeneralLeGrad(AttentionMap):
    """LeGrad maps of embeddings on one image; the maps of the layers are summed."""

    gradients_held = 2

    def __init__(self, layers: Sequence[AttentionLayer], start: Tensor, memory_bytes: int) -> None:
        super().__init__(layers, start, memory_bytes)
        most = rows_at_once(start.device) * 16 // layers[0].route.num_queries
        self.group_size = max(1, min(most, self.group_size))

    def forward(self, embeddings: Tensor) -> Tensor:
        """See `ExplainabilityMap.forward`."""
        total: Tensor | float = 0.0
        for layer in self._layers:
            layer.evaluate(embeddings)
            share = 1.0 / (len(layer.values) * layer.p.shape[1])
            for gradient in layer.gradients():
                total = total + gradient[:, :, layer.prefix :].relu().sum(1) * share
        assert isinstance(total, Tensor)
        return total

    def vjp(self, grad: Tensor) -> Tensor:
        """See `ExplainabilityMap.vjp`."""
        total = torch.zeros(1, device=grad.device, dtype=grad.dtype)
        for layer in self._layers:
            width = layer.values.shape[2]
            columns = grad[:, None] / (len(layer.values) * layer.p.shape[1])
            p_gradient = grad.new_empty(len(grad), *layer.p.shape[1:])
            for head, gradient in enumerate(layer.gradients()):
                passed = (gradient[:, :, layer.prefix :] > 0) * columns
                head_gradient = passed @ layer.values[head, layer.prefix :]
                p_gradient[:, :, head * width : (head + 1) * width] = head_gradient
            total = total + layer.route.vjp(p_gradient)
        return total


def make_legrad(encoding: ImageEncoding, memory_bytes: int) -> GeneralLeGrad:
    """Make LeGrad of an image encoded by a tower that has no `LayerConstants`."""
    return GeneralLeGrad(encoding.general, encoding.embedding, memory_bytes)
