"""Vocabularies that come with the package."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

from ...base.errors import InputError
from ...engine.models.specs import bundled_folder
from .files import LabelFile, parse_yaml
from .label import Label, split_words
from .vocabulary import TEMPLATES, Vocabulary

PREFIX: Final = "preset:"
"""Written before a preset's name wherever a file name could stand."""

TITLES: Final[dict[str, str]] = {
    "voc": "Pascal VOC",
    "coco": "COCO things",
    "pascal-context": "Pascal Context",
    "dota": "DOTA, from the air",
    "isaid": "iSAID, from the air",
    "blood-cells": "Blood cells",
    "blood-cell-types": "Blood cells by type",
    "cell-biology": "Cell biology",
    "demo": "What the demo model knows",
}
"""Menu titles of the presets by name."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A vocabulary with a name."""

    name: str
    description: str  # One line
    source: str  # Where the labels come from
    vocabulary: Vocabulary  # With the prompts that suit it


def presets() -> tuple[Preset, ...]:
    """List all presets."""
    return tuple(_load(name) for name in TITLES)


def preset(name: str) -> Preset:
    """Return a preset by its name, with or without "preset:" before it."""
    plain = name.removeprefix(PREFIX).strip().lower()
    if plain not in TITLES:
        raise InputError(f"There is no preset {plain!r}; choose from {', '.join(TITLES)}.")
    return _load(plain)


@cache
def _load(name: str) -> Preset:
    file = f"{name}.yaml"
    content = _content(file)
    labels = tuple(taught(_bundled_names())) if name == "demo" else content.labels
    vocabulary = Vocabulary.of(labels, content.templates or TEMPLATES["photo"])
    return Preset(name, content.description, content.source, vocabulary)


def taught(names: Iterable[str]) -> Iterator[Label]:
    """Yield the names that a model of this package was taught, with their synonyms and groups."""
    # Read as data, so that no training code is imported.
    text = files("napari_maskinversion").joinpath("demo_model", "vocabulary.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    drawn = (Label(row["name"], tuple(split_words(row["synonyms"])), row["group"]) for row in rows)
    known = {label.name: label for label in (*drawn, *_content("demo.yaml").labels)}
    # The lists share words; a vocabulary has each word once.
    names = list(names)
    used = set(names)
    for name in names:
        label = known.get(name, Label(name))
        synonyms = tuple(word for word in label.synonyms if word not in used)
        used.update(synonyms)
        yield replace(label, synonyms=synonyms)


def _bundled_names() -> list[str]:
    """Return the names of the bundled weights, which may be retrained with others."""
    return (bundled_folder() / "vocabulary.txt").read_text("utf-8").splitlines()


def _content(file: str) -> LabelFile:
    text = files(__package__).joinpath("preset_lists", file).read_text("utf-8")
    return parse_yaml(text, file)
