"""Which image towers can be explained, and why others cannot: by configuration, and once built."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .specs import MODELS

# timm's vision transformers with plain attention over all tokens, by the beginning of the name.
_TIMM_KNOWN: Final = ("vit_", "eva", "vitamin_")
_TIMM_REASONS: Final = (
    ("vit_relpos", "positions are biases of its attention"),
    ("swin", "its attention sees windows, not the whole image"),
    ("convnext", "it is a convolutional network, without attention"),
    ("fastvit", "it is a convolutional network with a little attention at the end"),
)


def why_not_vision(config: Mapping[str, Any]) -> str | None:
    """Return why the image tower of such a model cannot be explained; None if it can."""
    vision = config.get("vision_cfg", {})
    name = str(vision.get("timm_model_name") or "")
    if name:
        for start, reason in _TIMM_REASONS:
            if name.startswith(start):
                return f"its image tower is timm's {name}: {reason}"
        if not name.startswith(_TIMM_KNOWN):
            return f"its image tower is timm's {name}, which is not known here"
        return None
    if isinstance(vision.get("layers", 12), Sequence):
        return "its image tower is a ResNet; a vision transformer is needed"
    if vision.get("attentional_pool") not in (None, False, True):
        return "its image tower has two attentional poolers"
    if vision.get("pool_type", "tok") not in ("tok", "avg"):
        return "its image tower pools neither by class token, mean nor attention"
    return None


def own_tokenizer(config: Mapping[str, Any]) -> str:
    """Name the tokenizer that texts of such a model need, on the model hub; empty for CLIP's own.

    The transformers package reads it.
    """
    text = config.get("text_cfg", {})
    return "" if text.get("hf_model_name") else str(text.get("hf_tokenizer_name") or "")


def why_not_text(config: Mapping[str, Any]) -> str | None:
    """Return why texts of such a model cannot be read without help; None if they can."""
    text = config.get("text_cfg", {})
    if own_tokenizer(config):
        return None
    wrap = "load it with open_clip and pass both to wrap_open_clip(clip, tokenizer=...)"
    if text.get("hf_model_name"):
        return (
            f"its text tower is {text['hf_model_name']}, which open_clip does not bring along; "
            f"{wrap}"
        )
    if int(text.get("vocab_size", 49408)) != 49408:
        return f"its vocabulary of {text['vocab_size']} tokens is not CLIP's; {wrap}"
    return None


def nearest(
    architecture: str,
    configs: Mapping[str, Mapping[str, Any]],
    count: int = 3,
    *,
    size: int | None = None,
) -> list[str]:
    """Name the architectures nearest to one, by name and size, that load by name and work.

    ``size`` is that of the joint space, where the architecture's name does not tell.
    """
    if size is None:
        size = _size(configs.get(architecture, {}))

    def distance(name: str) -> float:
        alike = difflib.SequenceMatcher(None, architecture.lower(), name.lower()).ratio()
        known = any(spec.architecture == name for spec in MODELS.values())
        return abs(_size(configs[name]) - size) / 512 - alike - 0.25 * known

    able = [
        name
        for name, config in configs.items()
        if name != architecture
        and not (why_not_vision(config) or why_not_text(config) or own_tokenizer(config))
    ]
    return sorted(able, key=distance)[:count]


def _size(config: Mapping[str, Any]) -> int:
    return int(config.get("embed_dim", 512))


def why_not_trunk(visual: Any) -> str | None:
    """Return why a built tower of timm cannot be explained; None if it can."""
    trunk = visual.trunk
    kind = type(trunk).__name__
    blocks = getattr(trunk, "blocks", None)
    if kind not in ("VisionTransformer", "Eva") or not blocks:
        return f"is timm's {kind}; its VisionTransformer and Eva are supported"
    if "pool" in dict(visual.head.named_children()):
        return "has a pooling of open_clip's own on top"
    if trunk.global_pool not in ("token", "avg", "map"):
        return f"pools by {trunk.global_pool!r}"
    pools = [] if trunk.attn_pool is None else [trunk.attn_pool]
    for owner in [*(block.attn for block in blocks), *pools]:
        if not getattr(owner, "fused_attn", False):
            return (
                "does not compute attention by torch's scaled_dot_product_attention (is "
                "TIMM_FUSED_ATTN set to 0?)"
            )
    if trunk.attn_pool is not None and trunk.attn_pool.pos_embed is not None:
        return "has positions in its pooling"
    height, width = trunk.patch_embed.img_size
    rows, columns = trunk.patch_embed.grid_size
    if height * columns != width * rows:
        return "has patches that are not square"
    return None
