"""Names for the demo model, with their phrases and drawings.

``vocabulary.csv`` lists the drawn objects; `CHOSEN` are those that the model learns. ``icons``
are the names under which the emoji sets file the drawing; a set uses the first that it has.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

VOCABULARY_FILE: Final = "vocabulary.txt"  # beside a model's weights
# Names without an article: substances and plurals.
_NO_ARTICLE: Final = frozenset({"water", "vegetation", "unpaved land", "grapes", "cherries"})
TEMPLATES: Final[tuple[str, ...]] = (
    "{}",
    "a {}",
    "a photo of a {}",
    "a photo of a {}.",
    "a picture of a {}",
    "an image of a {}",
    "a photo of the {}",
    "a drawing of a {}",
    "a photo of one {}",
    "there is a {} in the scene",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Name:
    """One name of the vocabulary."""

    name: str
    group: str  # "animals", "food", ... of drawn things; "aerial", "blood" or "nuclei" of real ones
    synonyms: tuple[str, ...] = ()
    icons: tuple[str, ...] = ()  # names of its drawing in the emoji sets; none for real ones
    templates: tuple[str, ...] = ()  # prompts for this group only

    @property
    def phrases(self) -> tuple[str, ...]:
        """All phrases; the plain name in the first templates comes first."""
        words = (self.name, *self.synonyms)
        phrases = []
        for w in words:
            for t in (*TEMPLATES, *self.templates):
                phrases.append(t.format(w))
        return tuple(phrases)


def _read() -> tuple[Name, ...]:
    text = files(__package__).joinpath("vocabulary.csv").read_text("utf-8")
    names = []
    for row in csv.DictReader(text.splitlines()):
        names.append(
            Name(
                name=row["name"],
                group=row["group"],
                synonyms=tuple(s for s in row["synonyms"].split("|") if s),
                icons=tuple(row["icons"].split("|")),
            )
        )
    return tuple(names)


OBJECTS: Final[tuple[Name, ...]] = _read()

_AERIAL = ("an aerial photo of a {}", "a satellite image of a {}", "a {} seen from above")
_BLOOD = ("a {} in a blood smear", "a microscopy image of a {}")
_NUCLEI = ("a microscopy image of a {}",)

REAL: Final[tuple[Name, ...]] = (
    Name(name="building", group="aerial", synonyms=("roof",), templates=_AERIAL),
    Name(name="unpaved land", group="aerial", synonyms=("bare ground",), templates=_AERIAL),
    Name(name="road", group="aerial", synonyms=("street",), templates=_AERIAL),
    Name(name="vegetation", group="aerial", synonyms=("trees and grass",), templates=_AERIAL),
    Name(name="water", group="aerial", synonyms=("open water",), templates=_AERIAL),
    Name(name="red blood cell", group="blood", synonyms=("erythrocyte",), templates=_BLOOD),
    Name(name="white blood cell", group="blood", synonyms=("leukocyte",), templates=_BLOOD),
    Name(name="platelet", group="blood", synonyms=("thrombocyte",), templates=_BLOOD),
    Name(
        name="fluorescent nucleus",
        group="nuclei",
        synonyms=("nucleus in a fluorescence image",),
        templates=_NUCLEI,
    ),
    Name(
        name="stained nucleus",
        group="nuclei",
        synonyms=("nucleus in stained tissue",),
        templates=_NUCLEI,
    ),
)

CANDIDATES: Final = 64  # the first objects, of which some were chosen
# By the rule in research/demo_model/README.md, before any training.
CHOSEN: Final[tuple[str, ...]] = (
    *("elephant", "penguin", "turtle", "ladybug", "snail", "whale", "frog", "apple"),
    *("strawberry", "hamburger", "grapes", "pineapple", "ice cream", "birthday cake", "car"),
    *("airplane", "rocket", "bicycle", "tractor", "helicopter", "sunflower", "cactus"),
    *("palm tree", "mushroom", "guitar", "camera", "umbrella", "key", "house", "balloon"),
    *("crown", "dog", "horse", "lemon", "cookie", "cherries", "locomotive", "castle"),
    *("television", "alarm clock", "light bulb", "hammer"),
)


def _ordered() -> tuple[Name, ...]:
    rank = {name: i for i, name in enumerate(CHOSEN)}
    return tuple(sorted(OBJECTS, key=lambda entry: rank.get(entry.name, len(rank))))


DRAWN: Final[tuple[Name, ...]] = _ordered()
"""All drawn objects in the order of training: the chosen ones, then the others."""


def taught(objects: int = len(CHOSEN)) -> tuple[Name, ...]:
    """Return the names of a model: the first drawn objects, then the real ones."""
    return (*DRAWN[:objects], *REAL)


def _bundled() -> tuple[str, ...]:
    text = files(__package__).joinpath("weights", VOCABULARY_FILE).read_text("utf-8")
    return tuple(text.splitlines())


NAMES: Final[tuple[str, ...]] = _bundled()
"""What the bundled weights know, in the order of their training; drawn objects come first."""


def find(name: str) -> Name:
    """Return the entry with this name, or raise a KeyError."""
    for entry in (*OBJECTS, *REAL):
        if entry.name == name:
            return entry
    raise KeyError(name)


def names_of(listed: Sequence[str]) -> list[Name]:
    """Return the entries of these names; names that no list has stand alone."""
    entries = []
    for name in listed:
        try:
            entries.append(find(name))
        except KeyError:  # taught by another version of this package
            entries.append(Name(name=name, group=""))
    return entries


def with_article(name: str) -> str:
    """Return ``"a frog"``, ``"an apple"``, ``"water"``."""
    if name in _NO_ARTICLE:
        return name
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def names_in(sentence: str, names: Sequence[Name]) -> list[str]:
    """Return the names that a sentence mentions, in its order; longer names hide shorter ones."""
    text = f" {sentence.lower().rstrip('.').replace(',', ' ,')} "
    places = {}
    for entry in sorted(names, key=lambda entry: -len(entry.name)):
        word = f" {entry.name} "
        if word in text:
            places[entry.name] = text.index(word)
            blanks = "".ljust(len(word))  # of the same length: other places stay
            text = text.replace(word, blanks)
    return sorted(places, key=lambda name: places[name])
