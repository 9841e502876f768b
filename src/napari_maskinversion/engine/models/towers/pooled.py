"""Towers that pool by attention: one query looks at all tokens, and its attention is explained.

The score depends on the tokens through the pooling head alone, so the vectors p of attention
gradients are one per head, linear in the embedding, and made once for an image: maps cost next to
nothing. With several explained layers the head is given each layer's tokens in turn.
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
from .attention_capture import capture, rest
from .jacobian import score_jacobian
from .timm_vit import TimmTower, in_working_precision


class PooledTower(TimmTower):
    """SigLIP, SigLIP 2 and PE-Core, through timm: an `ImageTower`.

    Parameters
    ----------
    visual : open_clip TimmModel
    """

    family = "attention-pooled timm ViT"
    explainers = maps_for("class query")

    def __init__(self, visual: Any) -> None:
        super().__init__(visual)
        # Rotary positions are PE-Core's; it was not trained as SigLIP was, and has a class token.
        self.corrected = getattr(self._trunk, "rope", None) is None

    def _explain(
        self, block: Any, tokens: Tensor, arguments: dict[str, Any]
    ) -> tuple[Tensor, AttentionLayer]:
        with forward_only(tokens.device):
            result = block(tokens, **arguments)
            normed = self._trunk.norm(result)
        patches = normed.shape[1] - self._prefix
        head, normed = in_working_precision(self._pooling(), normed)
        return result, pooling_layer(head, normed, patches)

    def _pooling(self) -> Any:
        return _Head(self._visual, self._trunk)


class _Head(torch.nn.Module):
    """What follows the last norm, as a module that can be copied to another precision."""

    def __init__(self, visual: Any, trunk: Any) -> None:
        super().__init__()
        self.pool, self.norm, self.last, self.head = (
            trunk.attn_pool,
            trunk.fc_norm,
            trunk.head,
            visual.head,
        )
        leaves_out = not getattr(trunk, "pool_include_prefix", True)
        self.first = int(trunk.num_prefix_tokens) if leaves_out else 0
        self.training = False

    def forward(self, tokens: Tensor) -> Tensor:
        """Embedding (1, e) of tokens (1, n, d)."""
        embedding: Tensor = self.head(self.last(self.norm(self.pool(tokens[:, self.first :]))))
        return embedding


def pooling_layer(head: Any, tokens: Tensor, patches: int) -> AttentionLayer:
    """Explain the one attention call of a pooling head (1, n, d) to (1, e)."""
    seen = capture(head, tokens)
    with torch.no_grad():
        output = (attention(seen.queries, seen.keys) @ seen.values)[None]

    def feature(given: Tensor) -> Tensor:
        return rest(head, tokens, given)

    return layer_of(feature, output, seen.queries, seen.keys, seen.values, patches)


def layer_of(
    feature: Callable[[Tensor], Tensor],
    output: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    patches: int,
) -> AttentionLayer:
    """Explain a pooling attention, ``feature`` being the embedding of its output (1, h, 1, w)."""
    route = DecomposedRoute(score_jacobian(feature, output, cosine=False)[None])
    prefix = values.shape[1] - patches
    return AttentionLayer(route, values, queries, keys, prefix=prefix, pooling=True)
