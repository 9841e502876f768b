"""What open_clip's own vision transformers have in common, however they pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from torch import Tensor

from ...compute.onednn_layers import forward_only
from ...encode.attention import AttentionInputs, attention
from ...encode.image_encoding import embed
from .base import Block, ImageTower

_BLOCK: Final = "open_clip.transformer.ResidualAttentionBlock"
_ACTIVATIONS: Final = ("torch.nn.modules.activation.GELU", "open_clip.transformer.QuickGELU")


class OpenClipVit(ImageTower):
    """Sizes, checks and attention of open_clip's VisionTransformer.

    Parameters
    ----------
    visual : open_clip VisionTransformer
    """

    def __init__(self, visual: Any) -> None:
        super().__init__(visual)
        self.patch_size = int(visual.conv1.kernel_size[0])
        self.native_resolution = int(visual.grid_size[0]) * self.patch_size
        self.embed_dim = int(visual.proj.shape[1])
        blocks = visual.transformer.resblocks
        self.num_layers, self.num_heads = len(blocks), int(blocks[0].attn.num_heads)

    @classmethod
    def fits(cls, visual: Any) -> bool:
        """As in `ImageTower`."""
        pooled = getattr(visual, "attn_pool", None) is not None
        return hasattr(visual, "transformer") and pooled == cls.attention_pooled

    @classmethod
    def fits_config(cls, vision: Mapping[str, Any]) -> bool:
        """As in `ImageTower`."""
        is_resnet = isinstance(vision.get("layers", 12), Sequence)
        pooled = bool(vision.get("attentional_pool"))
        return not (vision.get("timm_model_name") or is_resnet) and pooled == cls.attention_pooled

    @classmethod
    def unsupported_config(cls, vision: Mapping[str, Any]) -> str:
        """As in `ImageTower`."""
        if vision.get("attentional_pool") not in (None, False, True):
            return "its image tower has two attentional poolers"
        if vision.get("pool_type", "tok") not in ("tok", "avg"):
            return "its image tower pools neither by class token, mean nor attention"
        return ""

    @classmethod
    def unsupported(cls, visual: Any) -> str:
        """As in `ImageTower`."""
        height, width = visual.patch_size
        if visual.attn_pool is not None and visual.attn_pool_contrastive is not None:
            return "has two attentional poolers"
        if visual.pool_type not in ("tok", "avg") or (
            visual.attn_pool and visual.pool_type != "tok"
        ):
            return "pools neither by its class token, the mean of the patches nor attention"
        if visual.proj is None:
            return "has no projection into the joint space"
        if height != width:
            return f"has patches of {height}x{width} pixels; they must be square"
        for index, block in enumerate(visual.transformer.resblocks):
            if _full_name(block) != _BLOCK:
                return f"has a block of kind {type(block).__name__} (block {index})"
            if _full_name(block.mlp.gelu) not in _ACTIVATIONS:
                return (
                    f"uses the activation {type(block.mlp.gelu).__name__} (block {index}); "
                    "GELU and QuickGELU are supported"
                )
        return ""

    @property
    def weight(self) -> Tensor:
        """As in `ImageTower`."""
        weight: Tensor = self._visual.conv1.weight
        return weight

    @property
    def description(self) -> str:
        """As in `ImageTower`."""
        return (
            f"open_clip ViT, {self.num_layers} layers, {self.weight.shape[0]} wide, "
            f"{self.patch_size}-pixel patches"
        )

    def _blocks(self, grid: tuple[int, int]) -> Sequence[Block]:
        return list(self._visual.transformer.resblocks)

    def _embed(self, image: Tensor, grid: tuple[int, int]) -> Tensor:
        return embed(self._visual, image, grid)

    def _attend(self, block: Any, tokens: Tensor) -> tuple[Tensor, Tensor]:
        attn = block.attn
        with forward_only(tokens.device):
            inputs = AttentionInputs(
                block.ln_1(tokens)[0], attn.in_proj_weight, attn.in_proj_bias, attn.num_heads
            )
            return attention(inputs.queries(), inputs.keys()).float(), block(tokens)


def _full_name(module: Any) -> str:
    kind = type(module)
    return f"{kind.__module__}.{kind.__qualname__}"
