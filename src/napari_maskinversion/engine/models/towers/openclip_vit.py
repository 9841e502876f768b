"""open_clip's own vision transformers: pooled by class token or mean, or by attention (CoCa)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
import torch.nn.functional as functional
from torch import Tensor

from ...compute.onednn_layers import forward_only
from ...encode.attention import AttentionInputs, AttentionLayer, attention
from ...encode.image_encoding import LayerConstants, embed, explain_block
from ...encode.token_grid import TokenGrid
from ...explain.registry import maps_for
from .base import Block, ImageTower
from .timm_vit import explain_pooling

_BLOCK: Final = "open_clip.transformer.ResidualAttentionBlock"
_ACTIVATIONS: Final = ("torch.nn.modules.activation.GELU", "open_clip.transformer.QuickGELU")


class OpenClipVit(ImageTower):
    """Sizes, checks and attention of open_clip's VisionTransformer."""

    def __init__(self, visual: Any) -> None:
        super().__init__(visual)
        self.patch_size = int(visual.conv1.kernel_size[0])
        self.native_resolution = int(visual.grid_size[0]) * self.patch_size
        self.embed_dim = int(visual.proj.shape[1])
        blocks = visual.transformer.resblocks
        self.num_layers = len(blocks)
        self.num_heads = int(blocks[0].attn.num_heads)

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
        weight: Tensor = self.visual.conv1.weight
        return weight

    @property
    def description(self) -> str:
        """As in `ImageTower`."""
        return (
            f"open_clip ViT, {self.num_layers} layers, {self.weight.shape[0]} wide, "
            f"{self.patch_size}-pixel patches"
        )

    def _blocks(self, grid: TokenGrid) -> Sequence[Block]:
        return list(self.visual.transformer.resblocks)

    def _embed(self, image: Tensor, grid: TokenGrid) -> Tensor:
        return embed(self.visual, image, grid)

    def _attend(self, block: Any, tokens: Tensor) -> tuple[Tensor, Tensor]:
        with forward_only(tokens.device):
            inputs = AttentionInputs.of(block, block.ln_1(tokens)[0])
            return attention(inputs.queries(), inputs.keys()).float(), block(tokens)


class ClassTokenTower(OpenClipVit):
    """A tower with a class token, pooled by it or by the mean of the other tokens.

    Its LeGrad maps are written out instead of derived by autograd, which is faster.
    """

    family = "class-token ViT"
    half_precision = several = True
    explainers = maps_for("class query", "block inputs")

    def _explain(self, block: Any, tokens: Tensor, patches: int) -> tuple[Tensor, LayerConstants]:
        with forward_only(tokens.device):
            return explain_block(self.visual, block, tokens)

    def _pool(self, tokens: Tensor) -> Tensor:
        visual = self.visual
        average = getattr(visual, "pool_type", "tok") == "avg"
        if average and not visual.final_ln_after_pool:
            embedding: Tensor = visual.ln_post(tokens[:, 1:]).mean(1) @ visual.proj
        else:
            mean = tokens[:, 1:].mean(1) if average else tokens[:, 0]
            embedding = visual.ln_post(mean) @ visual.proj
        return embedding


class CocaTower(OpenClipVit):
    """CoCa's tower; the attention of its pooler's first query is explained."""

    family = "attention-pooled ViT (CoCa)"
    explainers = maps_for("class query")
    attention_pooled = True

    def _explain(self, block: Any, tokens: Tensor, patches: int) -> tuple[Tensor, AttentionLayer]:
        return explain_pooling(block, _CocaHead(self.visual), tokens, patches)

    def _pool(self, tokens: Tensor) -> Tensor:
        visual = self.visual
        embedding: Tensor = visual.ln_post(visual.attn_pool(tokens))[:, 0] @ visual.proj
        return embedding


class _CocaHead(torch.nn.Module):
    """CoCa's pooler for its first query; calls torch's attention itself, so that it is seen."""

    def __init__(self, visual: Any) -> None:
        super().__init__()
        self.pooler = visual.attn_pool
        self.norm = visual.ln_post
        self.proj = visual.proj

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the embedding (1, e) of tokens (1, n, d)."""
        pooler = self.pooler
        attn = self.pooler.attn
        query = pooler.ln_q(pooler.query)[None, :1]
        tokens = pooler.ln_k(tokens)
        if attn.in_proj_weight is not None:
            weights = attn.in_proj_weight.chunk(3)
        else:
            weights = (attn.q_proj_weight, attn.k_proj_weight, attn.v_proj_weight)
        biases = attn.in_proj_bias.chunk(3)
        projected = []
        for x, weight, bias in zip((query, tokens, tokens), weights, biases, strict=True):
            product = functional.linear(x, weight, bias)
            projected.append(product.view(1, x.shape[1], attn.num_heads, -1).transpose(1, 2))
        queries, keys, values = projected
        mixed = functional.scaled_dot_product_attention(queries, keys, values)
        pooled = attn.out_proj(mixed.transpose(1, 2).flatten(2))
        embedding: Tensor = self.norm(pooled)[:, 0] @ self.proj
        return embedding


def _full_name(module: Any) -> str:
    kind = type(module)
    return f"{kind.__module__}.{kind.__qualname__}"
