"""Which data sets of the paper a folder holds, and with which split each is opened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.errors import InputError
from ...engine.settings import InversionConfig
from ...language.ranking.finding import EXPRESSION_ALPHA
from ..datasets.reading import existing_folder
from ..datasets.registry import DATASETS, VOC_CLASSES
from .quoted import SETS

if TYPE_CHECKING:
    from ..datasets.protocol import Dataset

NO_FOLDER: Final = "needs the folder of data sets (--data, or NAPARI_MASKINVERSION_DATA)"
_ALPHA_SETS: Final = ("refcoco", "refcoco+")


@dataclass(frozen=True, slots=True)
class PaperSets:
    """Data sets by the paper's columns."""

    opened: Mapping[str, Dataset]
    lacks: Mapping[str, str]  # Why other sets are not measured


def inversion_of(name: str, base: InversionConfig) -> InversionConfig:
    """Return the setting for a data set: the paper has alpha 5 for RefCOCO(+), else 0."""
    alpha = EXPRESSION_ALPHA if name in _ALPHA_SETS else 0.0
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
        splits[name] = DATASETS[name].layout.check_split(split)
    return splits


def read_sets(text: str | None) -> tuple[str, ...]:
    """Return data sets by name, separated by commas; None is all."""
    if text is None:
        return tuple(SETS)
    names = [name for name in (part.strip() for part in text.split(",")) if name]
    unknown = [name for name in names if name not in SETS]
    if unknown or not names:
        raise InputError(
            f"--sets takes some of {', '.join(SETS)}, separated by commas; "
            f"got {unknown[0] if unknown else text!r}."
        )
    return tuple(names)


def open_sets(
    data: Path | None,
    needed: Sequence[str],
    chosen: Sequence[str],
    splits: Mapping[str, str],
    voc_classes: int = 19,
    *,
    some: bool = False,
) -> PaperSets:
    """Open the data sets that are needed and there.

    A set of which nothing but images is there counts as missing.
    """
    if data is None:
        return PaperSets({}, dict.fromkeys(needed, NO_FOLDER))
    existing_folder(data, "--data")
    opened: dict[str, Dataset] = {}
    lacks: dict[str, str] = {}
    for name in needed:
        spec = DATASETS[VOC_CLASSES[voc_classes] if name == "voc" else name]
        split = spec.layout.check_split(splits.get(name))
        spelled = spec.layout.spelling(split)
        own = [part for part in spec.layout.parts if part.name != "images"]
        if name not in chosen:
            lacks[name] = "not among --sets"
        elif not any(part.paths(data, spelled) for part in own):
            lacks[name] = f"{spec.layout.title} is not in --data"
        else:
            opened[name] = spec.open(data, split)
    wanted = [SETS[name] for name in needed if name in chosen]
    if some and wanted and not opened:
        raise InputError(
            f"{data} holds none of these data sets: {', '.join(wanted)}; bench datasets --data "
            f"{data} shows where their files go."
        )
    return PaperSets(opened, lacks)
