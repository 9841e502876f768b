"""GradCAM on the tokens that enter the last block's attention, in closed form.

A channel's weight is the mean over patches of the gradient of the score with respect to the output
of ``ln_1``; the map is the weighted sum of the channels, with or without a ReLU. The gradient is
linear in the embedding, so before the ReLU the map is one product with a matrix (e, patches),
computed once per image.

With G_ij = <p_i, v_j> the attention gradient of a head (see `LayerConstants`), o_i = sum_j A_ij v_j
and kbar_i = sum_j A_ij k_j, the gradients of queries, keys and values, summed over the patches, are

    sum dq_i = sum_{i > 0} [ sum_j A_ij <p_i, v_j> k_j  -  <p_i, o_i> kbar_i ] / sqrt(w)
    sum dk_j = - sum_i A_i0 <p_i, v_0 - o_i> q_i / sqrt(w)        (rows of the softmax's gradient
    sum dv_j = sum_i (1 - A_i0) p_i                                add up to 0)

Each is a sum of (scalar of token i) x (linear form in p_i). With p written out, these are products
of matrices (n, n), (n, w) and (n, m): no attention gradient is ever held.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..encode.attention import attention
from ..encode.image_encoding import ImageEncoding, LayerConstants


class _GradCam:
    """GradCAM maps of embeddings on one image: a matrix (e, patches), with a ReLU or without.

    ``start`` (e,) is the image's own embedding.
    """

    def __init__(self, matrix: Tensor, start: Tensor, *, relu: bool) -> None:
        self._matrix = matrix
        self._start = start
        self._relu = relu
        self._passed = matrix.new_empty(0)
        self.group_size = 1024

    def forward(self, embeddings: Tensor) -> Tensor:
        # Without the ReLU, maps can be negative.
        maps = embeddings @ self._matrix
        if self._relu:
            self._passed = maps > 0
            maps = maps * self._passed
        return maps

    def forward_start(self) -> Tensor:
        return self.forward(self._start[None])

    def vjp(self, grad: Tensor) -> Tensor:
        return (grad * self._passed if self._relu else grad) @ self._matrix.T


def gradcam_matrix(layer: LayerConstants) -> Tensor:
    """Compute the map of each joint dimension, (e, patches), before any ReLU."""
    inputs = layer.inputs
    assert inputs is not None
    # p_i = u Wo + (slope_i * u W2) @ mixed - (bend_i . u W2) offset_i; two in one product.
    weights = layer.weights
    ones = layer.slope.new_ones(len(layer.slope), len(weights.out))
    slope = torch.cat([layer.slope, ones], dim=1)
    mixed = torch.cat([weights.mixed, weights.out])
    down = torch.cat([weights.down, torch.eye(len(weights.out)).to(weights.down)], dim=1)
    heads, _, width = layer.values.shape
    queries = inputs.queries()
    keys = inputs.keys()
    sums = slope.new_empty(3, heads * width, slope.shape[1])
    for head in range(heads):
        columns = slice(head * width, (head + 1) * width)
        sums[:, columns] = _head_sums(
            queries[head],
            keys[head],
            layer.values[head],
            slope,
            mixed[:, columns],
            layer.bend,
            layer.offset[:, columns],
        )
    weight = inputs.weight.detach().to(slope)
    gradient = weight.T @ (sums.flatten(0, 1) @ (layer.jacobian @ down).T)
    patches = inputs.tokens[1:]
    return gradient.T @ patches.T / len(patches)


def _head_sums(
    q: Tensor, k: Tensor, v: Tensor, slope: Tensor, mixed: Tensor, bend: Tensor, offset: Tensor
) -> Tensor:
    """Return the gradients of one head's queries, keys and values, summed (3, w, m + d)."""
    weights = attention(q, k)
    first = weights[:, :1]  # attention to [CLS], which is not on the map
    rows = torch.cat([torch.zeros_like(first[:1]), torch.ones_like(first[1:])])
    weighted = rows * weights
    outputs = weights @ v
    centre = rows * (weights @ k)
    scaled = first * q
    scale = q.shape[1] ** -0.5
    by_output = slope * (outputs @ mixed.T)
    sums = torch.stack(
        [
            scale * (k.T @ ((weighted.T @ slope) * (v @ mixed.T)) - centre.T @ by_output),
            scale * (scaled.T @ by_output - (scaled.T @ slope) * (mixed @ v[0])),
            mixed.T * ((1 - first).T @ slope),
        ]
    )
    along = (offset * outputs).sum(1, keepdim=True)
    bent = torch.stack(
        [
            scale * ((weighted * (offset @ v.T)) @ k - centre * along),
            scale * scaled * (along - (offset @ v[0])[:, None]),
            (1 - first) * offset,
        ]
    )
    sums[:, :, : bend.shape[1]] -= bent.transpose(1, 2) @ bend
    return sums


def make_gradcam(encoding: ImageEncoding, memory_bytes: int) -> _GradCam:
    """Make GradCAM of an encoded image."""
    return _GradCam(gradcam_matrix(encoding.layers[-1]), encoding.embedding, relu=True)


def make_gradcam_without_relu(encoding: ImageEncoding, memory_bytes: int) -> _GradCam:
    """Make GradCAM without its ReLU of an encoded image."""
    return _GradCam(gradcam_matrix(encoding.layers[-1]), encoding.embedding, relu=False)
