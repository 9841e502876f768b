"""What is measured of the paper: models for its backbones, data sets, a generator of captions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.errors import InputError, ModelError
from ...engine.methods.registry import Method
from ...engine.models.registry import get_spec, model_state, own_model
from ...engine.models.specs import MODELS
from ...engine.settings import InversionConfig
from ...language.ranking.ranking import EXPRESSION_ALPHA
from ...pipeline.caption_ranking import CaptionRequest
from ..datasets.registry import DATASETS, VOC_CLASSES, existing_folder
from .tables import BACKBONES, SETS, named

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...language.generation.decoder import CaptionDecoder
    from ..datasets.dataset import Dataset
    from ..measures.measuring import Captioner

USUAL: Final[Mapping[str, str]] = {
    "B/32": "ViT-B-32/openai",
    "B/16": "ViT-B-16/openai",
    "L/14": "ViT-L-14/openai",
    "H/14": "ViT-H-14/laion2b_s32b_b79k",
}
READER: Final = "B/32"  # the paper's decoder reads embeddings of this backbone
JUDGE: Final = "L/14"
NO_FOLDER: Final = "needs the folder of data sets (--data, or NAPARI_MASKINVERSION_DATA)"


# -- models -----------------------------------------------------------------------------------


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
    named = _by_backbone(wanted) if wanted is not None else USUAL
    lacks = {}
    for backbone in BACKBONES:
        lacks[backbone] = "not among --models"
        if backbone in named:
            lacks[backbone] = why_missing(named[backbone])
    models = {}
    for backbone, why in lacks.items():
        if not why:
            models[backbone] = named[backbone]
    return Backbones(models, {backbone: why for backbone, why in lacks.items() if why})


def _by_backbone(wanted: str) -> dict[str, str]:
    names = list(filter(None, map(str.strip, wanted.split(","))))
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
            backbone = _backbone_of(name)
            model = name
        _check_file(model, backbone or BACKBONES[1])
        if not backbone:
            strangers.append(model)
        elif chosen.setdefault(backbone, model) != model or names.count(name) > 1:
            raise InputError(
                f"--models names two models for {backbone}: {chosen[backbone]} and {model}."
            )
    if strangers and (chosen or len(strangers) > 1):
        raise InputError(
            f"--models: {strangers[0]} is none of the paper's architectures. Say which backbone it "
            f"stands for, such as B/16={strangers[0]}, or name it alone to stand for all."
        )
    if strangers:
        return dict.fromkeys(BACKBONES, strangers[0])
    return chosen


def _backbone_of(name: str) -> str:
    """Return the paper's backbone with this architecture, or ""."""
    named_architecture = parts_of(name)[1]
    if named_architecture is None:
        architecture = name.partition("/")[0]
    else:
        architecture = named_architecture.removesuffix("-quickgelu")
    usual = {model.partition("/")[0]: backbone for backbone, model in USUAL.items()}
    path = own_model(name)
    if path is not None and path.is_dir():
        return ""
    return usual.get(architecture, "")


def parts_of(name: str) -> tuple[str, str | None]:
    """Return a model as `load_model` takes it, and the architecture of a file of weights."""
    file, colon, architecture = name.rpartition(":")
    path = None
    if colon:
        path = own_model(file)
    if path is not None and path.is_file():
        return (file, architecture)
    return (name, None)


def _check_file(model: str, backbone: str) -> None:
    """Refuse a file of weights that is missing, or whose architecture is missing or unknown."""
    file, architecture = parts_of(model)
    path = own_model(file)
    usual = USUAL[backbone].partition("/")[0]
    if architecture is not None:
        from ...engine.models.openclip import architecture_config

        architecture_config(architecture)
    elif path is not None and path.is_file():
        raise InputError(
            f"--models: {file} is a file of weights, which do not tell their architecture; say "
            f"{backbone}={file}:{usual} (or {usual}-quickgelu, of OpenAI's weights)."
        )
    before, _, after = model.rpartition(":")
    if architecture is None and Path(before).suffix and not Path(model).exists():
        raise ModelError(f"There is no file {before}; --models takes {backbone}=FILE:{after}.")


def why_missing(name: str) -> str:
    """Return why a model is not on this machine, or ""."""
    path = own_model(parts_of(name)[0])
    if path is not None and path.exists():
        return ""
    spec = MODELS.get(name) or get_spec(name)
    if model_state(spec) == "to fetch":
        return f"needs weights: napari-maskinversion models fetch {spec.name}"
    return ""


# -- data sets --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PaperSets:
    """Data sets by the paper's columns."""

    opened: Mapping[str, Dataset]
    lacks: Mapping[str, str]  # Why other sets are not measured


def inversion_of(name: str, base: InversionConfig) -> InversionConfig:
    """Return the setting for a data set: the paper has alpha 5 for RefCOCO(+), else 0."""
    alpha = 0.0
    if name in ("refcoco", "refcoco+"):
        alpha = EXPRESSION_ALPHA
    return InversionConfig.of(base, alpha=alpha)


def read_splits(texts: Sequence[str], sets: Sequence[str] = tuple(SETS)) -> dict[str, str]:
    """Return splits by data set, one of ``sets``, from texts such as ``refcoco=testA``."""
    splits = {}
    for text in texts:
        name, equals, split = text.partition("=")
        if not equals or name not in sets:
            raise InputError(
                f"--split takes SET=SPLIT, where SET is one of {', '.join(sets)}; got {text!r}."
            )
        splits[name] = DATASETS[name].check_split(split)
    return splits


def read_sets(text: str | None) -> tuple[str, ...]:
    """Return data sets by name, separated by commas; None is all."""
    if text is None:
        return tuple(SETS)
    return named(text, SETS, "--sets takes some of")


def open_sets(
    data: Path | None,
    needed: Sequence[str],
    chosen: Sequence[str],
    splits: Mapping[str, str],
    voc_classes: int = 19,
    *,
    some: bool = False,
) -> PaperSets:
    """Open the data sets that are needed and there; ``some`` refuses a folder without any.

    A set of which nothing but images is there counts as missing.
    """
    if not needed:
        return PaperSets({}, {})
    if data is None:
        return PaperSets({}, dict.fromkeys(needed, NO_FOLDER))
    existing_folder(data, "--data")
    opened: dict[str, Dataset] = {}
    lacks: dict[str, str] = {}
    for name in needed:
        spec = DATASETS[VOC_CLASSES[voc_classes] if name == "voc" else name]
        split = spec.check_split(splits.get(name))
        if name not in chosen:
            lacks[name] = "not among --sets"
        elif any(paths for part, paths in spec.paths(data, split).items() if part != "images"):
            opened[name] = spec.open(data, split)
        else:
            lacks[name] = f"{spec.title} is not in --data"
    wanted = []
    for name in needed:
        if name in chosen:
            wanted.append(SETS[name])
    if some and wanted and not opened:
        raise InputError(
            f"{data} holds none of these data sets: {', '.join(wanted)}; bench datasets --data "
            f"{data} shows where their files go."
        )
    return PaperSets(opened, lacks)


# -- captions ---------------------------------------------------------------------------------


def captioner(
    request: CaptionRequest | None,
    backbones: Backbones,
    make: Callable[[Backbone], CaptionDecoder],
    load: Callable[[str], Backbone],
    *,
    memory: Path | None = None,
    sentences: str = "",
) -> tuple[Captioner | None, str]:
    """Return a captioner for Table 6, or why captions are not measured."""
    if request is None:
        return None, "needs a generator of captions (--decoder clipcap-coco)"
    reader = backbones.models.get(READER)
    if reader is None:
        return None, backbones.lacks[READER]
    judge = backbones.models.get(JUDGE, USUAL[JUDGE])
    if why := why_missing(judge):
        return None, f"the judge {why}"
    from ..datasets.dataset import content_of
    from ..measures.measuring import Captioner

    request.check(parts_of(reader)[0], Method(), memory)
    if request.file is None:
        weights = ""
    else:
        weights = content_of(request.file)
    how = json.dumps(dict(request.settings))  # records of other settings are made again
    parts = (request.decoder, weights, sentences, how, "judged by", judge)
    return Captioner(" ".join(filter(None, parts)), make, lambda: load(judge)), ""
