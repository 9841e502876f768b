"""Which models are measured as the paper's backbones. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...base.errors import InputError, ModelError
from ...engine.models.registry import get_spec, model_state, own_model
from ...engine.models.specs import MODELS
from .quoted import BACKBONES

USUAL: Final[Mapping[str, str]] = {
    "B/32": "ViT-B-32/openai",
    "B/16": "ViT-B-16/openai",
    "L/14": "ViT-L-14/openai",
    "H/14": "ViT-H-14/laion2b_s32b_b79k",
}


@dataclass(frozen=True, slots=True)
class Backbones:
    """Models by the paper's backbones."""

    # Names or folders of models, or ``FILE:ARCHITECTURE``, by backbone; see `parts_of`
    models: Mapping[str, str]
    lacks: Mapping[str, str]  # Why other backbones are not measured

    @property
    def names(self) -> tuple[str, ...]:
        """The models, each once."""
        return tuple(dict.fromkeys(self.models.values()))

    def backbones_of(self, name: str) -> tuple[str, ...]:
        """Return the backbones that a model stands for."""
        return tuple(backbone for backbone, model in self.models.items() if model == name)


def choose(wanted: str | None) -> Backbones:
    """Choose models for the paper's backbones."""
    named = _by_backbone(wanted) if wanted is not None else dict(USUAL)
    models, lacks = {}, {}
    for backbone in BACKBONES:
        name = named.get(backbone)
        if name is None:
            lacks[backbone] = "not among --models"
        elif why := why_missing(name):
            lacks[backbone] = why
        else:
            models[backbone] = name
    return Backbones(models, lacks)


def _by_backbone(wanted: str) -> dict[str, str]:
    names = [name for name in (part.strip() for part in wanted.split(",")) if name]
    if not names:
        raise InputError("--models names no model; say --models ViT-B-16/openai, or demo.")
    chosen: dict[str, str] = {}
    strangers = []
    for name in names:
        backbone, equals, model = name.partition("=")
        if equals and backbone not in BACKBONES:
            raise InputError(
                f"--models: the paper has no backbone {backbone!r}; it has {', '.join(BACKBONES)}."
            )
        if not equals:
            backbone, model = _backbone_of(name), name
        _check_file(model, backbone or BACKBONES[1])
        if not backbone:
            strangers.append(model)
        elif backbone in chosen:
            raise InputError(
                f"--models names two models for {backbone}: {chosen[backbone]} and {model}."
            )
        else:
            chosen[backbone] = model
    if strangers and (chosen or len(strangers) > 1):
        raise InputError(
            f"--models: {strangers[0]} is none of the paper's architectures. Say which backbone it "
            f"stands for, such as B/16={strangers[0]}, or name it alone to stand for all."
        )
    return dict.fromkeys(BACKBONES, strangers[0]) if strangers else chosen


def _backbone_of(name: str) -> str:
    """Return the paper's backbone with this architecture, or ""."""
    own = parts_of(name)[1]
    architecture = name.partition("/")[0] if own is None else own.removesuffix("-quickgelu")
    usual = {model.partition("/")[0]: backbone for backbone, model in USUAL.items()}
    path = own_model(name)
    return "" if path is not None and path.is_dir() else usual.get(architecture, "")


def parts_of(name: str) -> tuple[str, str | None]:
    """Return a model as `load_model` takes it, and the architecture of a file of weights."""
    file, colon, architecture = name.rpartition(":")
    return (file, architecture) if colon and _is_file(file) else (name, None)


def _is_file(name: str) -> bool:
    path = own_model(name)
    return path is not None and path.is_file()


def _check_file(model: str, backbone: str) -> None:
    """Refuse a file of weights that is missing, or whose architecture is missing or unknown."""
    file, architecture = parts_of(model)
    usual = USUAL[backbone].partition("/")[0]
    if _is_file(file) and architecture is None:
        raise InputError(
            f"--models: {file} is a file of weights, which do not tell their architecture; say "
            f"{backbone}={file}:{usual} (or {usual}-quickgelu, of OpenAI's weights)."
        )
    before, _, after = model.rpartition(":")
    if architecture is None and Path(before).suffix and not Path(model).exists():
        raise ModelError(f"There is no file {before}; --models takes {backbone}=FILE:{after}.")
    if architecture is not None:
        from ...engine.models.openclip import architecture_config

        architecture_config(architecture)


def why_missing(name: str) -> str:
    """Return why a model is not on this machine, or ""."""
    path = own_model(parts_of(name)[0])
    if path is not None and path.exists():
        return ""
    spec = MODELS.get(name) or get_spec(name)
    if model_state(spec) == "to fetch":
        return f"needs weights: napari-maskinversion models fetch {spec.name}"
    return ""
