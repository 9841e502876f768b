"""timm's vision transformers without attention pooling: EVA, MobileCLIP-B, ViTamin and the like."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...encode.attention import attention
from ...encode.attention_layer import AttentionLayer, AutogradRoute
from ...explain.registry import maps_for
from .attention_capture import capture, rest
from .jacobian import score_jacobian
from .timm_vit import TimmTower, in_working_precision


class TokenTower(TimmTower):
    """An `ImageTower` whose tokens each go their own way after the attention of a block.

    As for open_clip's own towers the score of a layer is that of its mean token, prefix tokens
    included, sent through the model's last norm and projection.
    """

    family = "timm ViT"

    def __init__(self, visual: Any) -> None:
        super().__init__(visual)
        self.explainers = maps_for("class query") if self._prefix else maps_for()

    def _explain(
        self, block: Any, tokens: Tensor, arguments: dict[str, Any]
    ) -> tuple[Tensor, AttentionLayer]:
        half = tokens.dtype
        block, tokens = in_working_precision(block, tokens)

        def run(given: Tensor) -> Tensor:
            result: Tensor = block(given, **arguments)
            return result

        seen = capture(run, tokens)
        with torch.no_grad():
            output = attention(seen.queries, seen.keys) @ seen.values
        leaf = output[None].requires_grad_()
        after = rest(run, tokens, leaf)
        # Pooled by the mean, the feature would be the image's own embedding.
        cosine = self._trunk.global_pool == "token"
        jacobian = score_jacobian(self._feature, after.detach().mean(1), cosine=cosine)
        jacobian = jacobian / after.shape[1]
        route = AutogradRoute(leaf, after, jacobian)
        layer = AttentionLayer(route, seen.values, seen.queries, seen.keys, prefix=self._prefix)
        return seen.result.to(half), layer

    def _feature(self, token: Tensor) -> Tensor:
        """The embedding (1, e) that the model would give were this (1, d) its pooled token."""
        trunk = self._trunk
        for part in (trunk.norm, trunk.fc_norm, trunk.head, self._visual.head):
            module, token = in_working_precision(part, token)
            token = module(token)
        return token
