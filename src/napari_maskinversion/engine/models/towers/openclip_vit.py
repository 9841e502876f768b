"""open_clip's own vision transformers: pooled by class token or mean, or by attention (CoCa)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
import torch.nn.functional as functional
from torch import Tensor

from ...compute.onednn_layers import forward_only
from ...encode.attention import AttentionInputs, attention
from ...encode.attention_layer import AttentionLayer
from ...encode.image_encoding import LayerConstants, embed, explain_block, pooled, working
from ...explain.registry import maps_for
from .base import Block, ImageTower
from .pooled import pooling_layer_of

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


class ClassTokenTower(OpenClipVit):
    """A tower with a class token, pooled by it or by the mean of the other tokens.

    Its LeGrad maps are written out instead of derived by autograd, which is faster.
    """

    family = "class-token ViT"
    explainers = maps_for("class query", "block inputs")

    def _explain(self, block: Any, tokens: Tensor, patches: int) -> tuple[Tensor, LayerConstants]:
        with forward_only(tokens.device):
            return explain_block(self._visual, block, tokens)

    def _pool(self, tokens: Tensor) -> Tensor:
        return pooled(self._visual, tokens)


class CocaTower(OpenClipVit):
    """CoCa's tower; the attention of its pooler's first query is explained."""

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


def _full_name(module: Any) -> str:
    kind = type(module)
    return f"{kind.__module__}.{kind.__qualname__}"


def _weights(attn: Any) -> list[tuple[Tensor, Tensor]]:
    """Return weights and biases of queries, keys and values of torch's own attention."""
    if attn.in_proj_weight is not None:
        weights = attn.in_proj_weight.chunk(3)
    else:
        weights = (attn.q_proj_weight, attn.k_proj_weight, attn.v_proj_weight)
    biases = attn.in_proj_bias.chunk(3)
    return [(working(w), working(b)) for w, b in zip(weights, biases, strict=True)]
