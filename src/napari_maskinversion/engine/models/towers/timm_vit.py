"""Vision transformers of timm, run block by block at any input size.

Some pool by attention: one query attends to all tokens, and that attention is explained. The score
depends on the tokens through the pooling head alone. The vectors p of the attention gradients are
therefore one per head, linear in the embedding and computed once per image: maps cost next to
nothing. With several explained layers, the head is applied to each layer's tokens in turn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch
import torch.nn.functional as functional
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ....base.errors import ModelError
from ...compute.onednn_layers import forward_only
from ...encode.attention import AttentionLayer, AutogradRoute, attention
from ...encode.image_encoding import resample_positions
from ...encode.token_grid import TokenGrid
from ...explain.registry import maps_for
from ...explain.routes import DecomposedRoute
from .base import Block, ImageTower

_HALF: Final = (torch.float16, torch.bfloat16)
# Plain attention over all tokens, by the beginning of timm's name.
_SUPPORTED: Final = ("vit_", "eva", "vitamin_")


class TimmTower(ImageTower):
    """What the families of timm share; each adds the layers that it explains."""

    def __init__(self, visual: Any) -> None:
        super().__init__(visual)
        self._vit = visual.trunk
        patches = self._vit.patch_embed
        self._native = TokenGrid(int(patches.grid_size[0]), int(patches.grid_size[1]))
        self.native_resolution = int(patches.img_size[0])
        self.patch_size = self.native_resolution // self._native.height
        self.num_layers = len(self._vit.blocks)
        self.num_heads = int(self._vit.blocks[0].attn.num_heads)
        self._prefix = int(self._vit.num_prefix_tokens)
        projection = getattr(visual.head, "proj", None)
        if projection is not None:
            self.embed_dim = int(projection.out_features)
        else:
            self.embed_dim = int(self._vit.num_classes or self._vit.num_features)

    @classmethod
    def fits(cls, visual: Any) -> bool:
        """As in `ImageTower`."""
        vit = getattr(visual, "trunk", None)
        pooled = getattr(vit, "attn_pool", None) is not None
        return vit is not None and pooled == cls.attention_pooled

    @classmethod
    def fits_config(cls, vision: Mapping[str, Any]) -> bool:
        """As in `ImageTower`."""
        name = str(vision.get("timm_model_name") or "")
        return name.startswith(_SUPPORTED) and not name.startswith("vit_relpos")

    @classmethod
    def unsupported(cls, visual: Any) -> str:
        """As in `ImageTower`."""
        vit = visual.trunk
        kind = type(vit).__name__
        blocks = getattr(vit, "blocks", None)
        if kind not in ("VisionTransformer", "Eva") or not blocks:
            return f"is timm's {kind}; its VisionTransformer and Eva are supported"
        if "pool" in dict(visual.head.named_children()):
            return "has a pooling of open_clip's own on top"
        if vit.global_pool not in ("token", "avg", "map"):
            return f"pools by {vit.global_pool!r}"
        attentions = [block.attn for block in blocks]
        if vit.attn_pool is not None:
            attentions.append(vit.attn_pool)
        if not all(getattr(attention, "fused_attn", False) for attention in attentions):
            return (
                "does not compute attention by torch's scaled_dot_product_attention (is "
                "TIMM_FUSED_ATTN set to 0?)"
            )
        if vit.attn_pool is not None and vit.attn_pool.pos_embed is not None:
            return "has positions in its pooling"
        height, width = vit.patch_embed.img_size
        rows, columns = vit.patch_embed.grid_size
        if height * columns != width * rows:
            return "has patches that are not square"
        return ""

    @property
    def _architecture(self) -> str:
        """timm's name of the architecture; "" for a module that was built without it."""
        config = getattr(self._vit, "pretrained_cfg", None) or {}
        return str(config.get("architecture") or "")

    @property
    def _is_perception_encoder(self) -> bool:
        """Whether the tower is one of PE-Core, PE-Lang or PE-Spatial."""
        return self._architecture.startswith("vit_pe_")

    @property
    def _position_mode(self) -> str:
        """How the authors resample learned positions to another grid."""
        if self._is_perception_encoder or "tipsv2" in self._architecture:
            return "bilinear"
        # Set on models whose configuration says so, such as FG-CLIP 2; timm's own is bicubic.
        return str(getattr(self._vit, "resampling", "bicubic"))

    @property
    def weight(self) -> Tensor:
        """As in `ImageTower`."""
        weight: Tensor = next(self._vit.blocks[0].parameters())
        return weight

    def _blocks(self, grid: TokenGrid) -> Sequence[Block]:
        arguments = self._block_arguments(grid)
        return [partial(block, **arguments) for block in self._vit.blocks]

    def _attend(self, block: Any, tokens: Tensor) -> tuple[Tensor, Tensor]:
        call = capture(block, tokens)
        return attention(call.queries, call.keys).float(), call.result

    def _pool(self, tokens: Tensor) -> Tensor:
        vit = self._vit
        embedding: Tensor = self.visual.head(vit.forward_head(vit.norm(tokens)))
        return embedding

    def _embed(self, image: Tensor, grid: TokenGrid) -> Tensor:
        vit = self._vit
        patches = self._vit.patch_embed
        x = image.to(self.weight.dtype)
        if hasattr(patches, "backbone"):
            x = patches.backbone(x)
            x = x[-1] if isinstance(x, list | tuple) else x
        x = patches.proj(x).flatten(2).transpose(1, 2)
        x = patches.norm(x) if hasattr(patches, "norm") else x
        prefix = []
        for token in (vit.cls_token, vit.reg_token):
            if token is not None:
                prefix.append(token)
        first = [token.expand(len(x), -1, -1) for token in prefix]
        positions: Tensor | float = 0.0
        if vit.pos_embed is not None:
            count = 0 if vit.no_embed_class else self._prefix
            positions = resample_positions(
                vit.pos_embed[0],
                self._native,
                grid,
                count,
                mode=self._position_mode,
                antialias=not self._is_perception_encoder,
            )
            positions = positions.to(x.dtype)
        if vit.no_embed_class:
            x = torch.cat([*first, x + positions], dim=1)
        else:
            x = torch.cat([*first, x], dim=1) + positions
        tokens: Tensor = vit.norm_pre(x)
        return tokens

    def _block_arguments(self, grid: TokenGrid) -> dict[str, Any]:
        rope = getattr(self._vit, "rope", None)
        if rope is None:
            return {}
        if grid == self._native:
            return {"rope": rope.get_embed(shape=list(grid))}
        rope = copy.deepcopy(rope)  # the model's own stays as it is
        if self._is_perception_encoder:
            # timm scales rotary positions to the native grid, as EVA's authors do; PE-Core's count
            # tokens, whatever the size.
            rope.ref_feat_shape = None
        if getattr(rope, "feat_shape", None) is None:
            return {"rope": rope.get_embed(shape=list(grid))}
        rope.update_feat_shape(list(grid))  # it holds the positions of one size only
        return {"rope": rope.get_embed()}


def to_working_precision(module: Any, tokens: Tensor) -> tuple[Any, Tensor]:
    """Return a module and its tokens in the precision of an inversion; a copy if they are half."""
    if any(parameter.dtype in _HALF for parameter in module.parameters()):
        module = copy.deepcopy(module).float()
    return module, tokens.float() if tokens.dtype in _HALF else tokens


class TokenTower(TimmTower):
    """A tower in which tokens are processed independently after a block's attention.

    As for open_clip's own towers, the score of a layer is that of its mean token (prefix tokens
    included), sent through the model's last norm and projection.
    """

    family = "timm ViT"

    def __init__(self, visual: Any) -> None:
        super().__init__(visual)
        if self._prefix:
            self.explainers = maps_for("class query")
        else:
            self.explainers = maps_for()

    def _explain(self, block: Any, tokens: Tensor, patches: int) -> tuple[Tensor, AttentionLayer]:
        dtype = tokens.dtype
        module, tokens = to_working_precision(block.func, tokens)
        run = partial(module, **block.keywords)
        call = capture(run, tokens)
        with torch.no_grad():
            output = attention(call.queries, call.keys) @ call.values
        leaf = output[None].requires_grad_()
        with torch.enable_grad():
            after = rerun(run, tokens, leaf)
        vit = self._vit
        parts = torch.nn.Sequential(vit.norm, vit.fc_norm, vit.head, self.visual.head)
        head, pooled = to_working_precision(parts, after.detach().mean(1))
        # Pooled by the mean, the feature would be the image's own embedding.
        jacobian = score_jacobian(head, pooled, cosine=vit.global_pool == "token")
        route = AutogradRoute(leaf, after, jacobian / after.shape[1])
        layer = AttentionLayer(route, call.values, call.queries, call.keys, prefix=self._prefix)
        return call.result.to(dtype), layer

    @forward_only()
    def value_tokens(self, image: Tensor) -> tuple[Tensor, TokenGrid]:
        """Return patch embeddings (h w, e), float32, and their grid, without the last attention.

        Each token has its own values instead; residual and MLP stay, as TIPSv2's authors read it.
        """
        grid = self.token_grid((image.shape[2], image.shape[3]))
        tokens = self._embed(image, grid)
        *blocks, last = self._blocks(grid)
        for block in blocks:
            tokens = block(tokens)
        tokens = rerun(last, tokens, capture(last, tokens).values[None])[0, self._prefix :]
        vit = self._vit
        embeddings: Tensor = self.visual.head(vit.head(vit.fc_norm(vit.norm(tokens))))
        return embeddings.float(), grid


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
        return explain_pooling(block, _Head(self.visual), tokens, patches)


class _Head(torch.nn.Module):
    """What follows the last block, as a module that can be copied to another precision."""

    def __init__(self, visual: Any) -> None:
        super().__init__()
        vit = visual.trunk
        self.parts = torch.nn.Sequential(vit.attn_pool, vit.fc_norm, vit.head, visual.head)
        self.norm = vit.norm
        leaves_out = not getattr(vit, "pool_include_prefix", True)
        self.first = 0
        if leaves_out:
            self.first = int(vit.num_prefix_tokens)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the embedding (1, e) of tokens (1, n, d)."""
        embedding: Tensor = self.parts(self.norm(tokens)[:, self.first :])
        return embedding


# timm's towers come with many kinds of attention (rotary positions, normalised queries, gates). All
# end in one call of `scaled_dot_product_attention`. Intercepting that call reveals queries, keys
# and values; answering it with another tensor makes the rest of the block a function of the
# attention's output alone. No module is changed and no hook is set.
Run = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class AttentionCapture:
    """One attention call within a run: (h, q, w), (h, n, w), (h, n, w); the result of the run."""

    result: Tensor
    queries: Tensor
    keys: Tensor
    values: Tensor


class _InterceptAttention(TorchFunctionMode):
    def __init__(self, answer: Tensor | None = None) -> None:
        super().__init__()
        self._answer = answer
        self.calls: list[tuple[Sequence[Any], Mapping[str, Any]]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if func is functional.scaled_dot_product_attention:
            self.calls.append((args, kwargs or {}))
            if self._answer is not None:
                return self._answer
        return func(*args, **(kwargs or {}))


def capture(run: Run, tokens: Tensor) -> AttentionCapture:
    """Run without gradients and return the inputs of the one attention call."""
    with torch.no_grad(), _InterceptAttention() as mode:
        result = run(tokens)
    (args, kwargs), *more = mode.calls or [((), {})]
    changed = [kwargs.get(name) is not None for name in ("attn_mask", "scale")]
    if len(args) != 3 or more or any(changed) or kwargs.get("is_causal"):
        raise ModelError(
            "The image tower cannot be explained: a block does not call torch's attention once, "
            "without a mask."
        )
    queries, keys, values = (part[0].detach() for part in args)
    return AttentionCapture(result, queries, keys, values)


def rerun(run: Run, tokens: Tensor, output: Tensor) -> Tensor:
    """Run again with this attention output (1, h, q, w): the result is differentiable in it."""
    with _InterceptAttention(output):
        return run(tokens)


def score_jacobian(
    feature_of: Callable[[Tensor], Tensor], point: Tensor, *, cosine: bool
) -> Tensor:
    """Return the Jacobian (e, elements of ``point``) of the vector that embeddings compare with.

    That vector is ``feature_of(point)``, (1, e), divided by its length. If the feature is the
    image's own embedding, its cosine is at its maximum where an inversion starts: no gradient, no
    map.
    With ``cosine=False`` the length is a constant of the image, so the score is a product.
    """

    def score_vector(x: Tensor) -> Tensor:
        feature = feature_of(x)[0]
        if cosine:
            unit: Tensor = functional.normalize(feature, dim=0)
            return unit
        product: Tensor = feature / feature.norm().detach()
        return product

    with torch.no_grad():  # of weights; torch.func differentiates in its own way
        jacobian: Tensor = torch.func.jacrev(score_vector)(point.detach())
    return jacobian.flatten(1)
