"""Which of open_clip's architectures load by name, why others do not, and the nearest that do."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from .specs import MODELS
from .towers import unsupported_config


def own_tokenizer(config: Mapping[str, Any]) -> str:
    """Return the hub name of the tokenizer of an architecture; "" for CLIP's own.

    The transformers package reads it.
    """
    text = config.get("text_cfg", {})
    return "" if text.get("hf_model_name") else str(text.get("hf_tokenizer_name") or "")


def unsupported_text(config: Mapping[str, Any]) -> str:
    """Return why texts cannot be tokenized for this architecture; "" if they can."""
    text = config.get("text_cfg", {})
    if own_tokenizer(config):
        return ""
    wrap = "load it with open_clip and pass both to wrap_open_clip(clip, tokenizer=...)"
    if text.get("hf_model_name"):
        return (
            f"its text tower is {text['hf_model_name']}, which open_clip does not include; {wrap}"
        )
    if int(text.get("vocab_size", 49408)) != 49408:
        return f"its vocabulary of {text['vocab_size']} tokens is not CLIP's; {wrap}"
    return ""


def unsupported(config: Mapping[str, Any]) -> str:
    """Return why a model of this architecture cannot be loaded by name; "" if it can.

    Answers before anything is downloaded; `openclip.check_module` checks a built module.
    """
    return unsupported_config(config) or unsupported_text(config)


def nearest(
    architecture: str,
    configs: Mapping[str, Mapping[str, Any]],
    count: int = 3,
    *,
    size: int | None = None,
) -> list[str]:
    """Return the architectures nearest to one, by name and size, that load by name.

    ``size`` is that of the joint embedding, for a module whose architecture is unknown.
    """
    if size is None:
        size = _size(configs.get(architecture, {}))

    def distance(name: str) -> float:
        similarity = difflib.SequenceMatcher(None, architecture.lower(), name.lower()).ratio()
        known = any(spec.architecture == name for spec in MODELS.values())
        return abs(_size(configs[name]) - size) / 512 - similarity - 0.25 * known

    supported = [
        name
        for name, config in configs.items()
        if name != architecture and not (unsupported(config) or own_tokenizer(config))
    ]
    return sorted(supported, key=distance)[:count]


def _size(config: Mapping[str, Any]) -> int:
    return int(config.get("embed_dim", 512))
