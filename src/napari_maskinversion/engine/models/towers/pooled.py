"""Towers that pool by attention: one query attends to all tokens, and that attention is explained.

The score depends on the tokens through the pooling head alone. The vectors p of the attention
gradients are therefore one per head, linear in the embedding and computed once per image: maps cost
next to nothing. With several explained layers, the head is applied to each layer's tokens in turn.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...compute.onednn_layers import forward_only
from ...encode.attention import AttentionLayer, attention
from ...explain.legrad import DecomposedRoute
from ...explain.registry import maps_for
from .attention_capture import capture, rerun, score_jacobian
from .timm_vit import TimmTower, to_working_precision


def explain_pooling(
    block: Any, head: torch.nn.Module, tokens: Tensor, patches: int
) -> tuple[Tensor, AttentionLayer]:
    """Run a block; return its tokens (1, n, d) and the attention with which a head pools them.

    The head makes the embedding (1, e) of tokens by one call of torch's attention.
    """
    with forward_only(tokens.device):
        tokens = block(tokens)
    head, entering = to_working_precision(head, tokens)
    call = capture(head, entering)
    with torch.no_grad():
        output = (attention(call.queries, call.keys) @ call.values)[None]
    jacobian = score_jacobian(lambda output: rerun(head, entering, output), output, cosine=False)
    prefix = call.values.shape[1] - patches
    layer = AttentionLayer(
        DecomposedRoute(jacobian[None]),
        call.values,
        call.queries,
        call.keys,
        prefix=prefix,
        pooling=True,
    )
    return tokens, layer


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
        return explain_pooling(block, _Head(self._visual), tokens, patches)


class _Head(torch.nn.Module):
    """What follows the last block, as a module that can be copied to another precision."""

    def __init__(self, visual: Any) -> None:
        super().__init__()
        vit = visual.trunk
        self.parts = torch.nn.Sequential(vit.attn_pool, vit.fc_norm, vit.head, visual.head)
        self.norm = vit.norm
        leaves_out = not getattr(vit, "pool_include_prefix", True)
        self.first = int(vit.num_prefix_tokens) if leaves_out else 0

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the embedding (1, e) of tokens (1, n, d)."""
        embedding: Tensor = self.parts(self.norm(tokens)[:, self.first :])
        return embedding
