"""The configuration in a model folder, checked before anything is built.

Its keys are the fields of open_clip's own classes. Sizes have limits here, since open_clip builds
whatever it is told to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from ...base.reading import read_json, validated
from .openclip import CLIPTextCfg, CLIPVisionCfg, MultimodalCfg
from .specs import CONFIG_FILE

# Far above those of any model.
_LARGEST: Final = {
    "layers": 500,
    "heads": 1_000,
    "attn_pooler_heads": 1_000,
    "attn_pooler_queries": 10_000,
    "n_queries": 10_000,
    "context_length": 10_000,
    "image_size": 10_000,
    "patch_size": 10_000,
    "width": 100_000,
    "head_width": 100_000,
    "dim_head": 100_000,
    "embed_dim": 100_000,
    "vocab_size": 10_000_000,
}
_STRICT: Final = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
# Of pixels from 0 to 1; wider limits than any model needs, within which nothing overflows.
_Mean = Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)]
_Spread = Annotated[float, Field(gt=1e-6, le=1000, allow_inf_nan=False)]


class _TokenizerOptions(BaseModel):
    """What a configuration may ask of a tokenizer; other options could make it run code."""

    model_config = _STRICT

    clean: Literal["whitespace", "lower", "canonicalize"] = "whitespace"
    strip_sep_token: bool = False
    language: str | None = None


def _size(name: str) -> Any:
    return Annotated[int, Field(ge=1, le=_LARGEST[name])]


def _fields_of(kind: Any) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(kind)
    for part in fields(kind):
        allowed: Any = hints[part.name]
        if part.name in _LARGEST:
            allowed = _size(part.name)
        elif part.name == "mlp_ratio":
            allowed = Annotated[float, Field(gt=0, le=100)]
        elif part.name == "tokenizer_kwargs":
            allowed = _TokenizerOptions
        yield part.name, (allowed | None if part.default is None else allowed, part.default)


def _section(kind: Any) -> Any:
    return create_model(kind.__name__, __config__=_STRICT, **dict(_fields_of(kind)))


_Architecture: Any = create_model(
    "model_cfg",
    __config__=_STRICT,
    embed_dim=(_size("embed_dim"), ...),
    vision_cfg=(_section(CLIPVisionCfg), ...),
    text_cfg=(_section(CLIPTextCfg), ...),
    multimodal_cfg=(_section(MultimodalCfg), None),
    quick_gelu=(bool, False),
    custom_text=(bool, False),
    init_logit_scale=(float, 0.0),
    init_logit_bias=(float | None, None),
    nonscalar_logit_scale=(bool, False),
)


class _Preprocessing(BaseModel):
    mean: tuple[_Mean, _Mean, _Mean]
    std: tuple[_Spread, _Spread, _Spread]
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"


class _Folder(BaseModel):
    model_cfg: _Architecture
    preprocess_cfg: _Preprocessing


def read_model_config(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the configuration of a model folder."""
    path = folder / CONFIG_FILE
    config = validated(_Folder, read_json(path, "configuration of a model"), path)
    return config.model_cfg.model_dump(exclude_unset=True), config.preprocess_cfg.model_dump()
