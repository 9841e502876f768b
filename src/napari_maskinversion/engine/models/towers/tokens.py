"""timm's vision transformers without attention pooling: EVA, MobileCLIP-B, ViTamin and others."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...encode.attention import attention
from ...encode.attention_layer import AttentionLayer, AutogradRoute
from ...explain.registry import maps_for
from .attention_capture import capture, rerun
from .jacobian import score_jacobian
from .timm_vit import TimmTower, to_working_precision


class TokenTower(TimmTower):
    """A tower in which tokens are processed independently after a block's attention.

    As for open_clip's own towers, the score of a layer is that of its mean token (prefix tokens
    included), sent through the model's last norm and projection.

    Parameters
    ----------
    visual : open_clip TimmModel
        Without attention pooling.
    """

    family = "timm ViT"

    def __init__(self, visual: Any) -> None:
        super().__init__(visual)
        self.explainers = maps_for("class query") if self._prefix else maps_for()

    def _explain(self, block: Any, tokens: Tensor, patches: int) -> tuple[Tensor, AttentionLayer]:
        dtype = tokens.dtype
        module, tokens = to_working_precision(block.func, tokens)
        run = partial(module, **block.keywords)
        call = capture(run, tokens)
        with torch.no_grad():
            output = attention(call.queries, call.keys) @ call.values
        leaf = output[None].requires_grad_()
        after = rerun(run, tokens, leaf)
        # Pooled by the mean, the feature would be the image's own embedding.
        cosine = self._vit.global_pool == "token"
        jacobian = score_jacobian(self._feature, after.detach().mean(1), cosine=cosine)
        route = AutogradRoute(leaf, after, jacobian / after.shape[1])
        layer = AttentionLayer(route, call.values, call.queries, call.keys, prefix=self._prefix)
        return call.result.to(dtype), layer

    def _feature(self, token: Tensor) -> Tensor:
        """Return the embedding (1, e) that the model makes of this pooled token (1, d)."""
        vit = self._vit
        for part in (vit.norm, vit.fc_norm, vit.head, self._visual.head):
            module, token = to_working_precision(part, token)
            token = module(token)
        return token
