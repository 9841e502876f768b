"""CoCa's image tower in open_clip: its own ViT, pooled by attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from ...compute.onednn_layers import forward_only
from ...encode.attention import attention
from ...encode.attention_layer import AttentionLayer
from ...encode.image_encoding import working
from ...explain.registry import maps_for
from .openclip_vit import OpenClipVit
from .pooled import pooling_layer_of


class CocaTower(OpenClipVit):
    """CoCa's tower; the attention of its pooler's first query is explained.

    Parameters
    ----------
    visual : open_clip VisionTransformer
        With an attentional pooler.
    """

    family = "attention-pooled ViT (CoCa)"
    explainers = maps_for("class query")
    attention_pooled = True

    def _explain(self, block: Any, tokens: Tensor, patches: int) -> tuple[Tensor, AttentionLayer]:
        with forward_only(tokens.device):
            tokens = block(tokens)
        return tokens, self._pooling_layer(tokens, patches)

    def _pool(self, tokens: Tensor) -> Tensor:
        visual = self._visual
        embedding: Tensor = visual.ln_post(visual.attn_pool(tokens))[:, 0] @ visual.proj
        return embedding

    def _pooling_layer(self, tokens: Tensor, patches: int) -> AttentionLayer:
        visual = self._visual
        pooler = visual.attn_pool
        with torch.no_grad():
            patch_tokens = working(pooler.ln_k(tokens)[0])
            query = working(pooler.ln_q(pooler.query)[:1])
            heads = pooler.attn.num_heads
            queries, keys, values = (
                functional.linear(x, weight, bias).view(len(x), heads, -1).transpose(0, 1)
                for x, (weight, bias) in zip(
                    (query, patch_tokens, patch_tokens), _weights(pooler.attn), strict=True
                )
            )
            output = (attention(queries, keys) @ values)[None]
        out, norm, proj = pooler.attn.out_proj, visual.ln_post, working(visual.proj)

        def feature(output: Tensor) -> Tensor:
            mixed = output.transpose(1, 2).flatten(2)[:, 0]
            mixed = functional.linear(mixed, working(out.weight), working(out.bias))
            normed = functional.layer_norm(
                mixed, (mixed.shape[1],), working(norm.weight), working(norm.bias), norm.eps
            )
            return normed @ proj

        return pooling_layer_of(feature, output, queries, keys, values, patches)


def _weights(attn: Any) -> list[tuple[Tensor, Tensor]]:
    """Return weights and biases of queries, keys and values of torch's own attention."""
    if attn.in_proj_weight is not None:
        weights = attn.in_proj_weight.chunk(3)
    else:
        weights = (attn.q_proj_weight, attn.k_proj_weight, attn.v_proj_weight)
    biases = attn.in_proj_bias.chunk(3)
    return [(working(w), working(b)) for w, b in zip(weights, biases, strict=True)]
