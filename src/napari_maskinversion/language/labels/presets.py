"""Vocabularies that come with the package."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Final

from ...base.errors import InputError
from .label import Label, split_words
from .vocabulary import TEMPLATES, Vocabulary
from .yaml_format import Words, parse_yaml

PREFIX: Final = "preset:"
"""What stands before a preset's name where a file might stand."""

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
"""The presets by name, with what a menu shows."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A vocabulary with its name.

    Attributes
    ----------
    name : str
    description : str
        One line.
    source : str
        Where the labels come from.
    vocabulary : Vocabulary
        With the prompts that suit it.
    """

    name: str
    description: str
    source: str
    vocabulary: Vocabulary


def presets() -> tuple[Preset, ...]:
    """List all presets."""
    return tuple(_load(name) for name in TITLES)


def preset(name: str) -> Preset:
    """Give one preset by its name, with or without "preset:" before it.

    Raises
    ------
    InputError
        If there is none; names those that are.
    """
    plain = name.removeprefix(PREFIX).strip().lower()
    if plain not in TITLES:
        raise InputError(f"There is no preset {plain!r}; choose from {', '.join(TITLES)}.")
    return _load(plain)


@cache
def _load(name: str) -> Preset:
    file = f"{name}.yaml"
    text = files(__package__).joinpath("preset_lists", file).read_text("utf-8")
    words = parse_yaml(text, file)
    if name == "demo":
        words = replace(words, labels=tuple(_demo_labels(words)))
    vocabulary = Vocabulary.of(words.labels, words.templates or TEMPLATES["photo"])
    return Preset(name, words.description, words.source, vocabulary)


def _demo_labels(words: Words) -> Iterator[Label]:
    """Give the labels of the bundled weights, which may be trained anew with others."""
    # As data beside the weights: nothing of what trains them is imported.
    folder = files("napari_maskinversion").joinpath("demo_model")
    names = folder.joinpath("weights", "vocabulary.txt").read_text("utf-8").splitlines()
    rows = csv.DictReader(folder.joinpath("vocabulary.csv").read_text("utf-8").splitlines())
    drawn = (Label(row["name"], tuple(split_words(row["synonyms"])), row["group"]) for row in rows)
    known = {label.name: label for label in (*drawn, *words.labels)}
    # What may be taught has words in common; what is taught must not.
    taken = set(names)
    for name in names:
        label = known.get(name, Label(name))
        synonyms = _free(label.synonyms, taken)
        taken.update(synonyms)
        yield replace(label, synonyms=synonyms)


def _free(synonyms: Sequence[str], taken: set[str]) -> tuple[str, ...]:
    return tuple(word for word in synonyms if word not in taken)
