"""open_clip's own vision transformer with a class token."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ...compute.onednn_layers import forward_only
from ...encode.image_encoding import LayerConstants, explain_block, pooled
from ...explain.registry import maps_for
from .openclip_vit import OpenClipVit


class ClassTokenTower(OpenClipVit):
    """A tower with a class token, pooled by it or by the mean of the other tokens.

    Its LeGrad maps are written out instead of derived by autograd, which is faster.

    Parameters
    ----------
    visual : open_clip VisionTransformer
        Without attentional pooler.
    """

    family = "class-token ViT"
    explainers = maps_for("class query", "block inputs")

    def _explain(self, block: Any, tokens: Tensor, patches: int) -> tuple[Tensor, LayerConstants]:
        with forward_only(tokens.device):
            return explain_block(self._visual, block, tokens)

    def _pool(self, tokens: Tensor) -> Tensor:
        return pooled(self._visual, tokens)
