"""CoCa's image tower in open_clip: its own ViT, pooled by attention."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from ...compute.onednn_layers import forward_only
from ...encode.attention import attention
from ...encode.attention_layer import AttentionLayer
from ...encode.image_encoding import ImageEncoding, check_image, check_layers, embed, working
from .openclip_vit import OpenClipVit
from .pooled import EXPLAINED, layer_of


class CocaTower(OpenClipVit):
    """CoCa's tower in open_clip: the first query of its attentional pooler; an `ImageTower`.

    Parameters
    ----------
    visual : open_clip VisionTransformer
        With a pooler.
    """

    family = "attention-pooled ViT (CoCa)"
    explainers = EXPLAINED
    corrected = False

    def encode_steps(
        self, image: Tensor, layers: int
    ) -> Generator[tuple[int, int], None, ImageEncoding]:
        """As in `ImageTower`."""
        check_layers(layers, self.num_layers)
        grid = check_image(image, (self.patch_size, self.patch_size))
        with torch.no_grad():
            tokens = embed(self._visual, image, grid)
        explained = []
        for index, block in enumerate(self._visual.transformer.resblocks):
            with forward_only(tokens.device):
                tokens = block(tokens)
            if index >= self.num_layers - layers:
                explained.append(self._layer(tokens, grid[0] * grid[1]))
            yield index + 1, self.num_layers
        with forward_only(tokens.device):
            visual = self._visual
            embedding = visual.ln_post(visual.attn_pool(tokens))[0, 0] @ visual.proj
        size = (int(image.shape[2]), int(image.shape[3]))
        return ImageEncoding(working(embedding), (), grid, size, general=tuple(explained))

    def _layer(self, tokens: Tensor, patches: int) -> AttentionLayer:
        visual = self._visual
        pooler = visual.attn_pool
        with torch.no_grad():
            looked_at = working(pooler.ln_k(tokens)[0])
            asked = working(pooler.ln_q(pooler.query)[:1])
            heads = pooler.attn.num_heads
            parts = []
            for tokens, (weight, bias) in zip(
                (asked, looked_at, looked_at), _weights(pooler.attn), strict=True
            ):
                projected = functional.linear(tokens, weight, bias)
                parts.append(projected.view(len(tokens), heads, -1).transpose(0, 1))
            queries, keys, values = parts
            output = (attention(queries, keys) @ values)[None]
        out, norm, proj = pooler.attn.out_proj, visual.ln_post, working(visual.proj)

        def feature(given: Tensor) -> Tensor:
            mixed = given.transpose(1, 2).flatten(2)[:, 0]
            mixed = functional.linear(mixed, working(out.weight), working(out.bias))
            shape = (mixed.shape[1],)
            normed = functional.layer_norm(
                mixed, shape, working(norm.weight), working(norm.bias), norm.eps
            )
            return normed @ proj

        return layer_of(feature, output, queries, keys, values, patches)


def _weights(attn: Any) -> list[tuple[Tensor, Tensor]]:
    """Weights and biases of queries, keys and values of torch's own attention."""
    if attn.in_proj_weight is not None:
        weights = attn.in_proj_weight.chunk(3)
    else:
        weights = (attn.q_proj_weight, attn.k_proj_weight, attn.v_proj_weight)
    biases = attn.in_proj_bias.chunk(3)
    return [(working(w), working(b)) for w, b in zip(weights, biases, strict=True)]
