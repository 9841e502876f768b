"""Everything used of open_clip: architectures, tags, tokenizers, building a module.

No other module imports open_clip, and this one is imported only when a model is first needed:
open_clip imports torch, torchvision with PyTorch's compiler, and timm, which takes seconds.
"""

from __future__ import annotations

import copy
import difflib
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast, get_type_hints

import torch
from pydantic import BaseModel, ConfigDict, Field, create_model
from torch import Tensor, nn

from ...base.cache_folder import is_offline
from ...base.errors import ModelError, OfflineError
from ...base.reading import read_json, validated
from ...base.wording import one_line
from .specs import (
    CONFIG_FILE,
    MODELS,
    VOCABULARIES,
    ModelSpec,
    elsewhere_called,
    has_tokenizer,
    unknown_model,
)
from .towers import unsupported_config, unsupported_tower

with warnings.catch_warnings():
    # Its dependencies warn on import about things that users of this package cannot change.
    warnings.simplefilter("ignore")
    import open_clip
    from open_clip import factory
    from open_clip.coca_model import CoCa, MultimodalCfg
    from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg, CustomTextCLIP
    from open_clip.tokenizer import HFTokenizer, SimpleTokenizer
    from open_clip.transformer import QuickGELU as QuickGELU

    from . import text_towers

Tokenizer = Callable[[list[str]], Tensor]

# Architectures of SigLIP 2
_FGCLIP: Final = {f"FG-CLIP2-{n}-16": f"ViT-{n}-16-SigLIP2-256" for n in ("B", "L", "SO400M")}
_LENGTH: Final = 77  # tokens of a text if the configuration does not tell
# Licence of the weights by the beginning of the tag; for others, see the page of the weights.
_LICENSES = (
    (("openai", "laion", "datacomp", "commonpool"), "MIT"),
    (("metaclip2",), "unknown"),
    (("metaclip",), "CC-BY-NC-4.0 (no commercial use)"),
    (("meta",), "Apache-2.0"),  # PE-Core
    (("dfn",), "Apple, research only"),
)
_Positive = Annotated[float, Field(gt=0)]
_STRICT: Final = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def architecture_config(architecture: str) -> dict[str, Any]:
    """Return open_clip's configuration of an architecture, as a copy."""
    if architecture in text_towers.ARCHITECTURES:
        return copy.deepcopy(text_towers.ARCHITECTURES[architecture])
    if architecture in _FGCLIP:
        twin = architecture_config(_FGCLIP[architecture])
        # Its authors keep full stops. open_clip builds the tower of SigLIP 2 with the exact GELU,
        # and timm resamples its positions bicubically.
        twin["text_cfg"]["tokenizer_kwargs"] = {"clean": "lower"}
        return {**twin, "as_published": True}
    config = None
    if ":" not in architecture:
        config = factory.get_model_config(architecture)
    if config is None:
        if elsewhere := elsewhere_called(architecture):
            raise ModelError(elsewhere.text)
        near = difflib.get_close_matches(architecture, open_clip.list_models(), n=3, cutoff=0.5)
        hint = ""
        if near:
            hint = f" Did you mean {', '.join(near)}?"
        raise ModelError(f"open_clip has no architecture called {architecture!r}.{hint}")
    return cast("dict[str, Any]", config)


def has_quick_gelu_twin(architecture: str) -> bool:
    """Return whether open_clip has the architecture with QuickGELU under another name."""
    return f"{architecture}-quickgelu" in open_clip.list_models()


@functools.cache
def architectures() -> tuple[str, ...]:
    """Return the architectures whose models can be loaded; takes a moment."""
    names = []
    for name in open_clip.list_models():
        if not unsupported(architecture_config(name)):
            names.append(name)
    return tuple(names)


def tag_spec(name: str) -> ModelSpec:
    """Return the spec of any ``"architecture/tag"`` of open_clip.

    Activation and normalisation come from the tag, not the architecture: open_clip builds
    ``ViT-B-16`` with GELU even for weights that were trained with QuickGELU.
    """
    architecture, _, tag = name.partition("/")
    config = open_clip.get_pretrained_cfg(architecture, tag)
    if not config:
        tags = ["/".join(pair) for pair in open_clip.list_pretrained()]
        raise unknown_model(name, [*MODELS, *tags])
    model_config = architecture_config(architecture)
    reason = unsupported(model_config)
    if reason:
        raise not_explained(name, reason)
    repository = str(config.get("hf_hub", ""))
    if not repository:
        raise ModelError(
            f"{name} is not on the model hub in a format that can be loaded safely; "
            "choose another tag."
        )
    native = side_of(model_config["vision_cfg"].get("image_size", 224))
    numbers = sum(
        parameter.numel() for parameter in build(model_config, quick_gelu=False).parameters()
    )
    clean_tag = tag.lower().replace("-", "_")
    return ModelSpec(
        name=f"{architecture}/{clean_tag}",
        title=f"open_clip {architecture}, {clean_tag}",
        architecture=architecture,
        tag=clean_tag,
        source=repository.rstrip("/"),
        size_mb=round(numbers * 4 / 1e6),  # in float32, the format on the hub
        license=next(
            (text for starts, text in _LICENSES if clean_tag.startswith(starts)),
            f"see the page of {repository.rstrip('/')}",
        ),
        native_resolution=native,
        quick_gelu=bool(config.get("quick_gelu", False)),
        tokenizer=own_tokenizer(model_config),
        mean=three(config["mean"]),
        std=three(config["std"]),
        interpolation="bilinear" if config.get("interpolation") == "bilinear" else "bicubic",
    )


def not_explained(name: str, reason: str) -> ModelError:
    """Return the error for a model that cannot be used."""
    return ModelError(
        f"{name} cannot be explained: {reason}. Choose another model, such as ViT-B-16/openai."
    )


class _TokenizerOptions(BaseModel):
    """What a configuration may ask of a tokenizer; other options could make it run code."""

    model_config = _STRICT

    clean: Literal["whitespace", "lower", "canonicalize"] = "whitespace"
    strip_sep_token: bool = False
    language: str | None = None


def _section(kind: Any) -> Any:
    """Return a pydantic model with the fields of one of open_clip's own configurations."""
    hints: dict[str, Any] = get_type_hints(kind) | {
        "layers": Annotated[int, Field(ge=1, le=500)],  # open_clip builds as many as it is told to
        "image_size": int,
        "mlp_ratio": float,
        "tokenizer_kwargs": _TokenizerOptions,
    }
    allowed_fields: dict[str, Any] = {}
    for part in fields(kind):
        if part.default is None:
            allowed = hints[part.name] | None
        else:
            allowed = hints[part.name]
        allowed_fields[part.name] = (allowed, part.default)
    return create_model(kind.__name__, __config__=_STRICT, **allowed_fields)


_Architecture: Any = create_model(
    "model_cfg",
    __config__=_STRICT,
    embed_dim=(int, ...),
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
    model_config = ConfigDict(allow_inf_nan=False)

    mean: tuple[float, float, float]
    std: tuple[_Positive, _Positive, _Positive]
    interpolation: Literal["bicubic", "bilinear"] = "bicubic"


class _Folder(BaseModel):
    model_cfg: _Architecture
    preprocess_cfg: _Preprocessing


def read_model_config(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read the configuration in a model folder: of the model, and of its images.

    Its keys are the fields of open_clip's own classes, which check no values.
    """
    path = folder / CONFIG_FILE
    config = validated(_Folder, read_json(path, "configuration of a model"), path)
    return config.model_cfg.model_dump(exclude_unset=True), config.preprocess_cfg.model_dump()


def check_config(config: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a configuration that was made of another one, after the same checks."""
    checked: dict[str, Any] = validated(_Architecture, config, path).model_dump(exclude_unset=True)
    return checked


def own_tokenizer(config: Mapping[str, Any]) -> str:
    """Return the hub name of the tokenizer of an architecture; "" for CLIP's own.

    The transformers package reads it.
    """
    text = config.get("text_cfg", {})
    if text.get("hf_model_name") and not text_towers.maker_of(text):
        return ""
    return str(text.get("hf_tokenizer_name") or text.get("hf_model_name") or "")


def unsupported_text(config: Mapping[str, Any]) -> str:
    """Return why texts cannot be tokenized for this architecture; "" if they can."""
    text = config.get("text_cfg", {})
    if own_tokenizer(config):
        return ""
    wrap = "load it with open_clip and pass both to wrap_open_clip(clip, tokenizer=...)"
    if text.get("hf_model_name"):
        return f"its text tower is {text['hf_model_name']}, which is not known here; {wrap}"
    if int(text.get("vocab_size", 49408)) != 49408:
        return f"its vocabulary of {text['vocab_size']} tokens is not CLIP's; {wrap}"
    return ""


def unsupported(config: Mapping[str, Any]) -> str:
    """Return why a model of this architecture cannot be loaded by name; "" if it can.

    Answers before anything is downloaded; `check_module` checks a built module.
    """
    return unsupported_config(config) or unsupported_text(config)


def build(
    config: Mapping[str, Any], *, quick_gelu: bool, name: str = "The architecture"
) -> nn.Module:
    """Return an open_clip module on the meta device: no memory, no random numbers drawn.

    ``load_state_dict(..., assign=True)`` fills its parameters, and `finish` completes it.
    """
    arguments = copy.deepcopy(dict(config))
    arguments["vision_cfg"]["timm_model_pretrained"] = False  # the weights come from a file
    custom_text = arguments.pop("custom_text", False)
    arguments["quick_gelu"] = quick_gelu
    as_published = arguments.pop("as_published", False)
    custom_text = custom_text or bool(arguments["text_cfg"].get("hf_model_name"))
    kind: type[nn.Module]
    if custom_text:
        kind = CustomTextCLIP
    else:
        kind = CLIP
    if "multimodal_cfg" in arguments:
        kind = CoCa
    try:
        with torch.device("meta"):
            module = text_towers.build_with_text(kind, arguments)
    except Exception as error:  # open_clip raises nearly anything on values that do not fit
        reason = one_line(error) or type(error).__name__
        raise ModelError(f"{name} cannot be built, its sizes do not fit: {reason}.") from error
    if as_published:
        visual = cast("Any", module).visual
        visual.trunk.resampling = "bilinear"
        for gelu in visual.modules():
            if type(gelu) is nn.GELU:
                gelu.approximate = "tanh"
    return module


def finish(module: nn.Module) -> None:
    """Fill what checkpoints do not contain: causal masks, rotary positions, zero biases."""
    for owner in module.modules():
        fill = getattr(owner, "init_non_persistent_buffers", None)
        if fill is not None:
            for name, buffer in owner.named_buffers(recurse=False):
                if buffer.is_meta:
                    setattr(owner, name, torch.empty_like(buffer, device="cpu"))
            fill()
        mask = dict(owner.named_buffers(recurse=False)).get("attn_mask")
        if mask is not None and mask.is_meta:
            causal = torch.full(tuple(mask.shape), float("-inf")).triu_(1)
            owner.register_buffer("attn_mask", causal, persistent=False)
        for name in ("position_ids", "token_type_ids"):  # of transformers
            ids = dict(owner.named_buffers(recurse=False)).get(name)
            if ids is not None and ids.is_meta:
                if name == "position_ids":
                    counted = torch.arange(ids.shape[-1])
                else:
                    counted = torch.zeros(1)
                filled = counted.to(ids.dtype).expand(ids.shape).clone()
                owner.register_buffer(name, filled, persistent=False)


def adapt_state(module: nn.Module, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return `state` with the names in `module`; the text tower is nested in it or not."""
    if isinstance(module, CustomTextCLIP | CoCa) and "positional_embedding" in state:
        state = factory.convert_to_custom_text_state_dict(state)
    for name in ("logit_scale", "logit_bias"):
        value = state.get(name)
        wanted = getattr(module, name, None)
        if value is not None and wanted is not None and value.numel() == wanted.numel():
            state = {**state, name: value.reshape(wanted.shape)}
    return state


def check_module(clip: nn.Module) -> None:
    """Refuse a module whose image tower cannot be explained."""
    if not isinstance(clip, CLIP | CustomTextCLIP | CoCa):
        raise ModelError(
            f"{type(clip).__name__} is not an open_clip CLIP model; pass what "
            "open_clip.create_model returns (neither compiled nor scripted)."
        )
    if any(tensor.is_inference() for tensor in [*clip.parameters(), *clip.buffers()]):
        raise ModelError(
            "The model's weights were made under torch.inference_mode(), so no gradient can pass "
            "through them; load the model outside of it."
        )
    reason = unsupported_tower(clip.visual)
    if reason:
        raise not_explained("The image tower", f"it {reason}")


def text_sizes(clip: nn.Module) -> tuple[int, int]:
    """Return context length and vocabulary size of a checked module."""
    module = cast("Any", clip)
    if hasattr(module, "vocab_size"):
        owner = module
    else:
        owner = module.text
    return int(owner.context_length), int(owner.vocab_size)


def uses_quick_gelu(clip: nn.Module) -> bool:
    """Return whether the image tower of a checked module uses QuickGELU."""
    visual = cast("Any", clip).visual
    return any(isinstance(module, QuickGELU) for module in visual.modules())


def encode_tokens(clip: Any, tokens: Tensor) -> Tensor:
    """Return text embeddings (T, e), not normalised: those of ``clip.encode_text(tokens)``.

    CLIP pads each text to its context length, mostly 77 tokens; a label in a sentence has about
    ten. Attention is causal and only the last token of a text is used, so the padding is left out.
    """
    if not _ignores_padding(clip):
        padded: Tensor = clip.encode_text(tokens)
        return padded
    ends = tokens.argmax(dim=1)
    length = int(ends.max()) + 1
    dtype = clip.transformer.get_cast_dtype()
    x = clip.token_embedding(tokens[:, :length]).to(dtype)
    x = x + clip.positional_embedding[:length].to(dtype)
    x = clip.transformer(x, attn_mask=clip.attn_mask[:length, :length])
    x = clip.ln_final(x)[torch.arange(len(x), device=x.device), ends]
    projection = clip.text_projection
    if projection is not None:
        if isinstance(projection, nn.Linear):
            x = projection(x)
        else:
            x = x @ projection
    embeddings: Tensor = x
    return embeddings


def _ignores_padding(clip: Any) -> bool:
    """Return whether tokens after the end of a text cannot change its embedding."""
    # A subclass or a replaced method may do anything.
    changed = type(clip) is not CLIP or "encode_text" in vars(clip)
    if changed or clip.text_pool_type != "argmax" or clip.attn_mask is None:
        return False
    mask: Tensor = clip.attn_mask
    earlier = torch.ones_like(mask, dtype=torch.bool).tril()
    return bool(((mask == -torch.inf) | earlier).all())


@functools.lru_cache(maxsize=4)
def clip_tokenizer(context_length: int) -> Tokenizer:
    """Return CLIP's own tokenizer; its vocabulary is a file inside open_clip."""
    return cast("Tokenizer", SimpleTokenizer(context_length=context_length))


def check_transformers(model: str, tokenizer: str) -> None:
    """Refuse a tokenizer that is not CLIP's own where transformers is not installed."""
    if tokenizer and find_spec("transformers") is None:
        raise ModelError(
            f"{model} uses the tokenizer {tokenizer}, which needs the package "
            'transformers: pip install "napari-maskinversion[tokenizers]".'
        )


def tokenizer_of(
    model: str, config: Mapping[str, Any], folders: Sequence[Path] = ()
) -> Tokenizer | None:
    """Return the tokenizer of a model; None if it is CLIP's own.

    It is read at its first call, from the first of the folders that has one, else from the hub or
    the hub's cache: that raises OfflineError if neither is possible, and ModelError if transformers
    cannot read it.
    """
    name = own_tokenizer(config)
    if not name:
        return None
    check_transformers(model, name)
    tokenizer_folder = next((folder for folder in folders if has_tokenizer(folder)), None)
    if tokenizer_folder is None and is_offline() and not _is_cached(name):
        raise OfflineError(
            f"The tokenizer {name} of {model} is not on this machine, and offline mode is on; "
            "fetch the model once with a network, or put the tokenizer's files into a folder "
            "'tokenizer' beside the weights."
        )

    @functools.cache
    def read() -> Tokenizer:
        offline = tokenizer_folder is not None or is_offline()
        text = config["text_cfg"]
        length = text.get("context_length", _LENGTH)
        settings = text.get("tokenizer_kwargs") or {}
        try:
            tokenizer = HFTokenizer(
                str(tokenizer_folder or name),
                context_length=int(length),
                local_files_only=offline,
                trust_remote_code=False,
                **settings,
            )
        except OSError as error:
            why = "the model hub cannot be reached"
            if offline:
                why = "offline mode is on"
            raise OfflineError(
                f"The tokenizer {name} of {model} is not on this machine, and {why}."
            ) from error
        except (ImportError, ValueError) as error:
            why = one_line(error)
            raise ModelError(f"The tokenizer {name} of {model} cannot be read: {why}") from error
        return cast("Tokenizer", tokenizer)

    return lambda texts: read()(texts)


def _is_cached(repository: str) -> bool:
    """Return whether transformers has read a tokenizer of the hub before."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    files = ("tokenizer_config.json", *VOCABULARIES)
    try:
        return any(isinstance(try_to_load_from_cache(repository, file), str) for file in files)
    except HFValidationError:  # a configuration may name anything
        return False


def side_of(size: int | Sequence[int]) -> int:
    """Return one number for an image size of a configuration."""
    if isinstance(size, int):
        return int(size)
    return int(size[0])


def three(values: Sequence[float]) -> tuple[float, float, float]:
    """Return three numbers, one per channel."""
    red, green, blue = (float(value) for value in values)
    return red, green, blue
