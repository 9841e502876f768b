"""Plain forward pass of the image tower, and differentiable LeGrad maps in closed form.

Training supervises these maps; ``engine`` has a faster and more general implementation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from napari_maskinversion.engine.encode.image_encoding import resample_positions


@dataclass(frozen=True, slots=True)
class Encoded:
    """Tensors of a forward pass that the maps need."""

    embedding: Tensor  # (B, e), unnormalised
    tokens: Tensor  # (B, n, d), output of the last layer
    before_mlp: Tensor  # (B, n, d), its tokens after attention
    hidden: Tensor  # (B, n, 4d), its MLP's pre-activations
    values: Tensor  # (B, h, n, d/h), its value vectors
    grid: tuple[int, int]  # rows and columns of patches

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Return all tensors in the order of the fields."""
        return self.embedding, self.tokens, self.before_mlp, self.hidden, self.values

    def detached(self) -> Encoded:
        """Return the same values as leaves of a new graph."""
        leaves = (t.detach().requires_grad_(True) for t in self.tensors)
        embedding, tokens, before, hidden, values = leaves
        return Encoded(embedding, tokens, before, hidden, values, self.grid)


def encode(visual: Any, images: Tensor) -> Encoded:
    """Run an open_clip ``VisionTransformer`` with a class token on images of any fitting size."""
    x = visual.conv1(images)
    grid = (x.shape[2], x.shape[3])
    x = x.flatten(2).transpose(1, 2)
    x = torch.cat([visual.class_embedding.expand(len(x), 1, -1), x], 1)
    x = visual.ln_pre(x + positions_of(visual, grid))
    *blocks, last = visual.transformer.resblocks
    for block in blocks:
        x, _, _, _ = _block(block, x)
    tokens, before, hidden, values = _block(last, x)
    embedding = visual.ln_post(tokens[:, 0]) @ visual.proj
    return Encoded(embedding, tokens, before, hidden, values, grid)


def positions_of(visual: Any, grid: tuple[int, int]) -> Tensor:
    """Return positional embeddings for a grid: a product, which CUDA graphs can hold."""
    positions: Tensor = visual.positional_embedding
    native: tuple[int, int] = tuple(visual.grid_size)
    if grid == native:
        return positions
    matrix = _resampling(native, grid, str(positions.device)).to(positions.dtype)
    return torch.cat([positions[:1], matrix @ positions[1:]])


@cache
def _resampling(native: tuple[int, int], grid: tuple[int, int], device: str) -> Tensor:
    """Return the matrix that resamples the positions of one grid for another."""
    count = native[0] * native[1]
    each = torch.cat([torch.zeros(1, count), torch.eye(count)])
    return resample_positions(each, native, grid)[1:].to(device)


def _block(block: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """One residual block: output, tokens after attention, MLP pre-activations, values."""
    attn = block.attn
    batch, n, width = x.shape
    qkv = F.linear(block.ln_1(x), attn.in_proj_weight, attn.in_proj_bias)
    q, k, v = qkv.view(batch, n, 3, attn.num_heads, -1).permute(2, 0, 3, 1, 4)
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, n, width)
    before = x + attn.out_proj(mixed)
    hidden = block.mlp.c_fc(block.ln_2(before))
    return before + block.mlp.c_proj(F.gelu(hidden)), before, hidden, v


def legrad_maps(
    visual: Any, image: Encoded, embeddings: Tensor, queries: Tensor | None = None
) -> Tensor:
    """Return the last layer's LeGrad maps of embeddings (B, L, e), (B, L, grid_h, grid_w), >= 0.

    Rows are independent; `queries` are the query tokens to average over, by default all.
    """
    total = attention_gradients(visual, image, embeddings, queries).relu().mean((2, 3))
    return total.reshape(*embeddings.shape[:2], *image.grid)


def attention_gradients(
    visual: Any, image: Encoded, embeddings: Tensor, queries: Tensor | None = None
) -> Tensor:
    """Return what `legrad_maps` takes the positive part of, (B, L, q, h, n - 1)."""
    block = visual.transformer.resblocks[-1]
    n = image.tokens.shape[1]
    before, hidden = image.before_mlp, image.hidden
    if queries is not None:
        before, hidden = before[:, queries], hidden[:, queries]
    u = _score_gradient(visual, image.tokens.mean(1), embeddings) / n
    shared = u @ block.mlp.c_proj.weight  # (B, L, 4d)
    back = (shared[:, :, None] * _gelu_slope(hidden)[:, None]) @ block.mlp.c_fc.weight
    g = u[:, :, None] + _layer_norm_back(block.ln_2, before[:, None], back)
    p = g @ block.attn.out_proj.weight  # (B, L, q, d)
    p = p.reshape(*p.shape[:3], image.values.shape[1], -1)
    return torch.einsum("blqhc,bhnc->blqhn", p, image.values[:, :, 1:])


def _score_gradient(visual: Any, mean: Tensor, embeddings: Tensor) -> Tensor:
    """Return the gradient of cos(embedding, f) by the mean token (B, d), (B, L, d)."""
    y = visual.ln_post(mean) @ visual.proj
    length = y.norm(dim=-1, keepdim=True)
    f = (y / length)[:, None]
    unit = F.normalize(embeddings, dim=-1)
    dy = (unit - (unit * f).sum(-1, keepdim=True) * f) / length[:, None]
    return _layer_norm_back(visual.ln_post, mean[:, None], dy @ visual.proj.T)


def _layer_norm_back(norm: Any, x: Tensor, gradient: Tensor) -> Tensor:
    """Compute the vector-Jacobian product of a LayerNorm at x; leading axes broadcast."""
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    scale = (variance + norm.eps).rsqrt()
    xhat = (x - mean) * scale
    gradient = gradient * norm.weight
    inner = (gradient * xhat).mean(-1, keepdim=True)
    back: Tensor = scale * (gradient - gradient.mean(-1, keepdim=True) - xhat * inner)
    return back


def _gelu_slope(a: Tensor) -> Tensor:
    """Return the derivative of the exact GELU."""
    return 0.5 * (1 + torch.erf(a * math.sqrt(0.5))) + a * torch.exp(-0.5 * a * a) / math.sqrt(
        2 * math.pi
    )
