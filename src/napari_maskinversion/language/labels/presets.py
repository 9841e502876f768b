"""Vocabularies by name, or as users write them; the words that models were taught."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.errors import InputError
from ...base.wording import counted
from ...engine.models.specs import DEMO, bundled_folder
from .files import FILE_SUFFIXES, LabelFile, read_yaml
from .label import TEMPLATES, Label, choose_templates, split_words
from .learned import SUFFIX
from .vocabulary import Vocabulary

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

_LISTED: Final = 3  # words in a note
_NAMES: Final = "vocabulary.txt"  # beside the weights, as the training writes it
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
    if name == "demo":
        labels = tuple(taught(_names_of(DEMO)))
    else:
        labels = content.labels
    vocabulary = Vocabulary.of(labels, content.templates or TEMPLATES["photo"])
    return Preset(name, content.description, content.source, vocabulary)


def taught(names: Iterable[str]) -> Iterator[Label]:
    """Yield the names that a model of this package was taught, with their synonyms and groups."""
    # Read as data, so that no training code is imported.
    text = files("napari_maskinversion").joinpath("demo_model", "vocabulary.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    drawn = (Label(row["name"], tuple(split_words(row["synonyms"])), row["group"]) for row in rows)
    labels = {label.name: label for label in (*drawn, *_content("demo.yaml").labels)}
    # The lists share words; a vocabulary has each word once.
    names = list(names)
    used = set(names)
    for name in names:
        label = labels.get(name, Label(name))
        synonyms = tuple(word for word in label.synonyms if word not in used)
        used.update(synonyms)
        yield replace(label, synonyms=synonyms)


def _content(file: str) -> LabelFile:
    return read_yaml(files(__package__).joinpath("preset_lists", file).read_bytes(), file)


# -- labels as users write them ----------------------------------------------------------------


def vocabulary_of(
    labels: str | Sequence[str] | Vocabulary,
    templates: Sequence[str] = (),
    threshold: float | None = None,
) -> Vocabulary:
    """Return labels and the prompts they are put into."""
    if isinstance(templates, str):
        templates = (templates,)
    if isinstance(labels, os.PathLike):
        labels = os.fspath(labels)
    chosen = None
    if templates:
        chosen = choose_templates(templates)
    if isinstance(labels, str) and os.path.isfile(labels):  # noqa: PTH113 - long texts are no path
        if Path(labels).name == labels and not Path(labels).suffix:
            raise InputError(
                f"{labels!r} is a word and also a file; write ./{labels} for the file, or "
                f"'{labels},' for the word."
            )
        vocabulary = Vocabulary.read(labels, chosen)
    elif isinstance(labels, str) and Path(labels).suffix.lower() in FILE_SUFFIXES:
        kind = "label file"
        if Path(labels).suffix.lower() == SUFFIX:
            kind = "classifier"
        raise InputError(f"There is no {kind} at {labels}; check the path.")
    elif isinstance(labels, str) and not labels.startswith(PREFIX):
        vocabulary = Vocabulary.parse(labels, chosen or TEMPLATES["photo"])
        if len(vocabulary.labels) == 1 and ";" in labels:
            raise InputError(f"Write commas between labels, not semicolons; got {labels[:80]!r}.")
    else:
        if isinstance(labels, str):
            labels = preset(labels).vocabulary
        elif not isinstance(labels, Vocabulary):
            labels = Vocabulary(tuple(labels))
        if chosen is None:
            vocabulary = labels
        else:
            vocabulary = replace(labels, templates=chosen)
    if threshold is None:
        return vocabulary
    return replace(vocabulary, threshold=threshold)


def with_classifier(
    classifier: Path, labels: str | None = None, threshold: float | None = None
) -> Vocabulary:
    """Return the words of a classifier, and more that it has not learned."""
    if classifier.suffix.lower() != SUFFIX:
        raise InputError(f"{classifier} is no classifier: their files end in {SUFFIX}.")
    words = vocabulary_of(str(classifier), (), threshold)
    if labels is None:
        return words
    more = []
    for label in vocabulary_of(labels).full_labels:
        if label.name not in words.labels:
            more.append(label)
    added = Vocabulary.of((*words.full_labels, *more), words.templates, threshold)
    return replace(added, learned=words.learned)


# -- what a model trained by this package does not know ----------------------------------------


def unknown_words(labels: Iterable[Label], model: str) -> tuple[str, ...]:
    """Return the names of labels that a model was not taught, under any of their words.

    Capitals, hyphens and a plural's s do not matter. What a CLIP knows cannot be told by its
    tokenizer: for such models nothing is returned.
    """
    words = _known(model)
    if words is None:
        return ()
    return tuple(label.name for label in labels if words.isdisjoint(map(_plain, label.words)))


def unknown_to(model: Backbone, vocabulary: Vocabulary | None) -> frozenset[str]:
    """Return the labels of a vocabulary that a loaded model was not taught."""
    if vocabulary is None:
        return frozenset()
    return frozenset(unknown_words(vocabulary.full_labels, taught_by(model)))


def taught_by(model: Backbone) -> str:
    """Return the folder of a loaded model, or its name, for `unknown_words`."""
    spec = model.spec
    if spec is None or spec.bundled:
        return model.name
    return spec.source or model.name


def unknown_words_note(labels: Iterable[Label], model: str) -> str:
    """Return one line about the words that a model was not taught; "" if it knows all."""
    unknown = unknown_words(labels, model)
    if not unknown:
        return ""
    whose = "the demo model" if model == DEMO else "this model"
    names = ", ".join(unknown[:_LISTED])
    listed = f"{counted(len(unknown), 'word')} that {whose} does not know: {names}"
    left_out = len(unknown) - _LISTED
    if left_out > 0:
        listed += f" and {left_out} more"
    plain = {_plain(word) for word in unknown}
    near = []
    for name in _names_of(model):
        if plain & {_plain(part) for part in name.split()}:
            near.append(name)
    if near:
        return f"{listed}; it knows {', '.join(near[:_LISTED])}"
    return listed


@cache
def _known(model: str) -> frozenset[str] | None:
    """Return all words that a model was taught; None if that cannot be told."""
    names = _names_of(model)
    if not names:
        return None
    words: set[str] = set()
    for label in taught(names):
        words.update(map(_plain, label.words))
    return frozenset(words)


def _names_of(model: str) -> tuple[str, ...]:
    file = (bundled_folder() if model == DEMO else Path(model)) / _NAMES
    if file.is_file():
        return tuple(filter(None, file.read_text("utf-8").splitlines()))
    return ()


def _plain(word: str) -> str:
    """Return a word in the form in which words are compared."""
    plain = " ".join(word.casefold().replace("-", " ").replace("_", " ").split())
    if plain.endswith("s") and not plain.endswith("ss"):
        return plain[:-1]
    return plain
