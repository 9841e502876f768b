"""Checkpoints in other layouts than open_clip's, and configurations of transformers, translated."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from ...base.errors import InputError
from ...base.reading import read_json, validated
from .specs import OPENAI_MEAN, OPENAI_STD, PREPROCESSOR, TRANSFORMERS_CONFIG

State = dict[str, Tensor]
_SHORT_TEXT: Final = 20  # positions that LongCLIP keeps as they are
_TEMPERATURE: Final = 0.005065968260169029  # of TIPSv2, whose weights may lack it

# Names of transformers' encoder layers, in both towers
_LAYERS: Final = (
    (r"encoder\.layers\.", "transformer.resblocks."),
    (r"\.layer_norm([12])\.", r".ln_\1."),
    (r"\.self_attn\.", ".attn."),
    (r"\.mlp\.fc1\.", ".mlp.c_fc."),
    (r"\.mlp\.fc2\.", ".mlp.c_proj."),
    (r"embeddings\.token_embedding\.", "token_embedding."),
    (r"final_layer_norm\.", "ln_final."),
)
_CLIP: Final = (
    *_LAYERS,
    (r"^vision_model\.", "visual."),
    (r"^text_model\.", ""),
    (r"^visual\.embeddings\.class_embedding$", "visual.class_embedding"),
    (r"^visual\.embeddings\.patch_embedding\.", "visual.conv1."),
    (r"^visual\.embeddings\.position_embedding\.weight$", "visual.positional_embedding"),
    (r"^embeddings\.position_embedding\.weight$", "positional_embedding"),
    (r"^visual\.pre_layrnorm\.", "visual.ln_pre."),
    (r"^visual\.post_layernorm\.", "visual.ln_post."),
    (r"^visual_projection\.weight$", "visual.proj"),
    (r"^text_projection\.weight$", "text_projection"),
)
_TIPS: Final = (
    *_LAYERS,
    (r"^vision_(encoder|model)\.", "visual.trunk."),
    (r"^text_(encoder|model)\.", "text."),
    (r"register_tokens$", "reg_token"),
    (r"embeddings\.(cls_token|mask_token|reg_token)$", r"\1"),
    (r"embeddings\.position_embeddings$", "pos_embed"),
    (r"embeddings\.patch_embeddings\.projection\.", "patch_embed.proj."),
    (r"encoder\.layer\.", "blocks."),
    (r"\.attention\.o_proj\.", ".attn.proj."),
    (r"\.attention\.", ".attn."),
    (r"\.layer_scale([12])\.lambda1$", r".ls\1.gamma"),
    (r"trunk\.layernorm\.", "trunk.norm."),
    (r"(trunk\.blocks\.\d+\.mlp)\.c_fc\.", r"\1.fc1."),
    (r"(trunk\.blocks\.\d+\.mlp)\.c_proj\.", r"\1.fc2."),
    (r"\.mlp\.w12\.", ".mlp.fc1."),  # of g
    (r"\.mlp\.w3\.", ".mlp.fc2."),
)
# The image tower of SigLIP 2 in transformers, whose positions and patches fit any shape
_SIGLIP: Final = (
    (r"^vision_model\.", "visual.trunk."),
    (r"encoder\.layers\.", "blocks."),
    (r"\.layer_norm([12])\.", r".norm\1."),
    (r"\.self_attn\.out_proj\.", ".attn.proj."),
    (r"\.self_attn\.", ".attn."),
    (r"embeddings\.patch_embedding\.", "patch_embed.proj."),
    (r"embeddings\.position_embedding\.weight$", "pos_embed"),
    (r"trunk\.post_layernorm\.", "trunk.norm."),
    (r"trunk\.head\.probe$", "trunk.attn_pool.latent"),
    (r"trunk\.head\.attention\.in_proj_(weight|bias)$", r"trunk.attn_pool.in_proj.\1"),
    (r"trunk\.head\.attention\.out_proj\.", "trunk.attn_pool.proj."),
    (r"trunk\.head\.layernorm\.", "trunk.attn_pool.norm."),
    (r"trunk\.head\.", "trunk.attn_pool."),
)
_SIGLIP_TEXT: Final = (
    *_LAYERS,
    (r"^text_model\.", "text."),
    (r"embeddings\.position_embedding\.weight$", "positional_embedding"),
    (r"^text\.head\.", "text.text_projection."),
)
# Of FG-CLIP 2: for boxes and long texts
_NOT_READ: Final = r"dense_feature_head|longtext_head|boxtext_head|.*position_embedding_(res|ori)\."
# MaskCLIP++: EVA's image tower and its text tower
_MASKCLIPPP: Final = (
    (r"^visual_encoder\.proxy\.", "visual.trunk."),
    (r"^text_encoder\.proxy\.", "text."),
    (r"^text_encoder\.logit_scale$", "logit_scale"),
    (r"\.attn\.([qv])_bias$", r".attn.\1_proj.bias"),
    (r"\.inner_attn_ln\.", ".norm."),
    (r"\.ffn_ln\.", ".norm."),
    (r"\.mlp\.w1\.", ".mlp.fc1_g."),
    (r"\.mlp\.w2\.", ".mlp.fc1_x."),
    (r"\.mlp\.w3\.", ".mlp.fc2."),
)
# What weighs masks and classes in training, and EVA's rotary positions, which timm computes
_UNUSED: Final = (
    r"psm\.|criterion\.|visual_encoder\.mask_logit_scale$"
    r"|visual_encoder\.proxy\.(.*\.)?rope\.freqs_(cos|sin)$"
)


def translated(state: State) -> State:
    """Return a checkpoint with open_clip's names, from the layouts that are known here."""
    state = {key: value for key, value in state.items() if not key.endswith("position_ids")}
    if "vision_model.embeddings.class_embedding" in state:
        state = _joined(_renamed(state, _CLIP), "in_proj_")
        for key in {"visual.proj", "text_projection"} & set(state):
            state[key] = state[key].T.contiguous()
    elif {"vision_encoder.cls_token", "vision_model.embeddings.cls_token"} & set(state):
        state = _of_tips(state)
    elif "positional_embedding_res" in state:
        state = _of_longclip(state)
    elif "vision_model.head.probe" in state:
        state = _of_siglip(state)
    elif "visual_encoder.proxy.cls_token" in state:
        state = _renamed(_without(state, _UNUSED), _MASKCLIPPP)
    return state


def _without(state: State, names: str) -> State:
    return {key: value for key, value in state.items() if not re.match(names, key)}


def _renamed(state: State, names: tuple[tuple[str, str], ...]) -> State:
    result = {}
    for key, value in state.items():
        for pattern, name in names:
            key = re.sub(pattern, name, key)
        result[key] = value
    return result


def _joined(state: State, name: str, within: str = "") -> State:
    """Join queries, keys and values (d, d) to one tensor (3 d, d), where they are three."""
    result = dict(state)
    for key in state:
        begin, projection, end = key.partition("q_proj.")
        if projection and begin.startswith(within):
            parts = [result.pop(f"{begin}{part}_proj.{end}") for part in "qkv"]
            result[f"{begin}{name}{end}"] = torch.cat(parts)
    return result


def _of_tips(state: State) -> State:
    """TIPSv2: as published, or as transformers has it; positions as timm has them."""
    state = _joined(_renamed(state, _TIPS), "qkv.", "visual.")
    state = _joined(state, "in_proj_", "text.")
    trunk = "visual.trunk."
    positions = state[f"{trunk}pos_embed"]
    state[f"{trunk}pos_embed"] = positions[:, 1:]
    state[f"{trunk}cls_token"] = state[f"{trunk}cls_token"] + positions[:, :1]
    state.pop(f"{trunk}mask_token", None)
    temperature = float(state.pop("temperature", torch.tensor(_TEMPERATURE)))
    return {**state, "logit_scale": torch.tensor(-math.log(temperature))}


def _of_siglip(state: State) -> State:
    """SigLIP 2 and FG-CLIP 2, whose linear layer of patches (y, x, colour) is a convolution."""
    state = _without(state, _NOT_READ)
    image = {}
    for key, value in state.items():
        if key.startswith("vision_model."):
            image[key] = value
    texts = {}
    for key, value in state.items():
        if key not in image:
            texts[key] = value
    image = _joined(_renamed(image, _SIGLIP), "qkv.")
    trunk = "visual.trunk."
    patches = image[f"{trunk}patch_embed.proj.weight"]
    if patches.ndim == 2:
        side = math.isqrt(patches.shape[1] // 3)
        patches = patches.reshape(-1, side, side, 3).permute(0, 3, 1, 2)
        image[f"{trunk}patch_embed.proj.weight"] = patches.contiguous()
    image[f"{trunk}pos_embed"] = image[f"{trunk}pos_embed"][None]
    for kind in ("weight", "bias"):
        query, *keys_and_values = image.pop(f"{trunk}attn_pool.in_proj.{kind}").chunk(3)
        image[f"{trunk}attn_pool.q.{kind}"] = query
        image[f"{trunk}attn_pool.kv.{kind}"] = torch.cat(keys_and_values)
    return {**image, **_joined(_renamed(texts, _SIGLIP_TEXT), "in_proj_")}


def _of_longclip(state: State) -> State:
    """LongCLIP, 248 tokens: the first positions of one tensor, the others of a second one."""
    short = state["positional_embedding"]
    long = state["positional_embedding_res"]
    state = {key: value for key, value in state.items() if key not in _LONGCLIP}
    positions = torch.cat([short[:_SHORT_TEXT], long[_SHORT_TEXT:]])
    return {**state, "positional_embedding": positions}


_LONGCLIP: Final = ("mask1", "mask2", "positional_embedding_res")


def with_context_of(config: dict[str, Any], state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return a configuration for texts as long as a checkpoint has positions."""
    positions = state.get("positional_embedding")
    if positions is None or positions.ndim != 2 or len(positions) != 248:
        return config
    return {**config, "text_cfg": {**config["text_cfg"], "context_length": len(positions)}}


_Positive = Annotated[int, Field(ge=1, le=1_000_000)]
_Shares = Annotated[tuple[float, float, float], Field(strict=False)]


class _Tower(BaseModel):
    model_config = ConfigDict(strict=True)  # other keys do not change the numbers

    hidden_size: _Positive
    intermediate_size: _Positive
    num_hidden_layers: Annotated[int, Field(ge=1, le=500)] = 12
    num_attention_heads: _Positive
    hidden_act: Literal["gelu", "quick_gelu"] = "quick_gelu"

    def sizes(self) -> dict[str, Any]:
        return {
            "layers": self.num_hidden_layers,
            "width": self.hidden_size,
            "mlp_ratio": self.intermediate_size / self.hidden_size,
        }


class _Vision(_Tower):
    hidden_size: _Positive = 768
    intermediate_size: _Positive = 3072
    num_attention_heads: _Positive = 12
    image_size: _Positive = 224
    patch_size: _Positive = 32


class _Text(_Tower):
    hidden_size: _Positive = 512
    intermediate_size: _Positive = 2048
    num_attention_heads: _Positive = 8
    max_position_embeddings: _Positive = 77
    vocab_size: _Positive = 49408


class _Clip(BaseModel):
    """A CLIPModel of transformers, with its defaults: a file has what differs from them."""

    model_type: Literal["clip"]
    projection_dim: _Positive = 512
    vision_config: _Vision = _Vision()
    text_config: _Text = _Text()


class _Images(BaseModel):
    image_mean: _Shares = OPENAI_MEAN
    image_std: _Shares = OPENAI_STD


def read_transformers_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return open_clip's configuration of a CLIPModel of transformers: model and images."""
    path = folder / TRANSFORMERS_CONFIG
    content = read_json(path, "configuration of a model")
    kind = None
    if isinstance(content, dict):
        kind = content.get("model_type")
    if kind != "clip":
        raise InputError(
            f"{path} describes a model of the kind {kind!r}; of transformers' models, CLIPModel "
            "can be used in a folder, and TIPSv2 by its name."
        )
    config = validated(_Clip, content, path)
    vision = config.vision_config
    text = config.text_config
    if vision.hidden_act != text.hidden_act:
        raise InputError(f"{path} names two activations; only one for both towers is known here.")
    images = _Images()
    if (beside := folder / PREPROCESSOR).exists():
        images = validated(_Images, read_json(beside, "configuration of images"), beside)
    model = {
        "embed_dim": config.projection_dim,
        "quick_gelu": vision.hidden_act == "quick_gelu",
        "vision_cfg": {
            **vision.sizes(),
            "image_size": vision.image_size,
            "patch_size": vision.patch_size,
            "head_width": vision.hidden_size // vision.num_attention_heads,
        },
        "text_cfg": {
            **text.sizes(),
            "context_length": text.max_position_embeddings,
            "vocab_size": text.vocab_size,
            "heads": text.num_attention_heads,
        },
    }
    return model, {"mean": images.image_mean, "std": images.image_std}
