"""open_clip's own vision transformer with a class token."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from torch import Tensor

from ...encode.attention_layer import AttentionLayer
from ...encode.image_encoding import ImageEncoding, encode_steps, pooled
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

    def encode_steps(
        self, image: Tensor, layers: int
    ) -> Generator[tuple[int, int], None, ImageEncoding]:
        """As in `ImageTower`."""
        return encode_steps(self._visual, image, layers)

    def _explain(self, block: Any, tokens: Tensor, patches: int) -> tuple[Tensor, AttentionLayer]:
        raise NotImplementedError("`encode_steps` explains these blocks itself.")

    def _pool(self, tokens: Tensor) -> Tensor:
        return pooled(self._visual, tokens)
