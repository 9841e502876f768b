"""Towers that pool by attention: one query attends to all tokens, and that attention is explained.

The score depends on the tokens through the pooling head alone. The vectors p of the attention
gradients are therefore one per head, linear in the embedding and computed once per image: maps cost
next to nothing. With several explained layers, the head is applied to each layer's tokens in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ...compute.onednn_layers import forward_only
from ...encode.attention import attention
from ...encode.attention_layer import AttentionLayer
from ...explain.projections import DecomposedRoute
from ...explain.registry import maps_for
from .attention_capture import capture, rerun, score_jacobian
from .timm_vit import TimmTower, to_working_precision


class PooledTower(TimmTower):
    """SigLIP, SigLIP 2 and PE-Core, through timm."""

    family = "attention-pooled timm ViT"
    explainers = maps_for("class query")
    attention_pooled = True

    def __init__(self, visual: Any) -> None:
        super().__init__(visual)
        # Only SigLIP's: PE-Core has rotary positions, another training and a class token.
        self.corrected = getattr(self._vit, "rope", None) is None

    def _explain(self, block: Any, tokens: Tensor, patches: int) -> tuple[Tensor, AttentionLayer]:
        with forward_only(tokens.device):
            tokens = block(tokens)
            normed = self._vit.norm(tokens)
        head, normed = to_working_precision(_Head(self._visual), normed)
        return tokens, pooling_layer(head, normed, patches)


class _Head(torch.nn.Module):
    """What follows the last norm, as a module that can be copied to another precision."""

    def __init__(self, visual: Any) -> None:
        super().__init__()
        vit = visual.trunk
        self.pool, self.norm, self.last, self.head = (
            vit.attn_pool,
            vit.fc_norm,
            vit.head,
            visual.head,
        )
        leaves_out = not getattr(vit, "pool_include_prefix", True)
        self.first = int(vit.num_prefix_tokens) if leaves_out else 0
        self.training = False

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the embedding (1, e) of tokens (1, n, d)."""
        embedding: Tensor = self.head(self.last(self.norm(self.pool(tokens[:, self.first :]))))
        return embedding


def pooling_layer(head: Any, tokens: Tensor, patches: int) -> AttentionLayer:
    """Explain the one attention call of a pooling head, (1, n, d) to (1, e)."""
    call = capture(head, tokens)
    with torch.no_grad():
        output = (attention(call.queries, call.keys) @ call.values)[None]
    return pooling_layer_of(
        lambda output: rerun(head, tokens, output),
        output,
        call.queries,
        call.keys,
        call.values,
        patches,
    )


def pooling_layer_of(
    feature: Callable[[Tensor], Tensor],
    output: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    patches: int,
) -> AttentionLayer:
    """Explain a pooling attention; ``feature`` maps its output (1, h, 1, w) to the embedding."""
    route = DecomposedRoute(score_jacobian(feature, output, cosine=False)[None])
    prefix = values.shape[1] - patches
    return AttentionLayer(route, values, queries, keys, prefix=prefix, pooling=True)
