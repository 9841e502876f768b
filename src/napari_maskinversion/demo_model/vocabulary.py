"""Names for the demo model, with their phrases and drawings.

``vocabulary.csv`` lists the drawn objects; `CHOSEN` are those that the model learns. ``icons``
are the names under which the emoji sets file the drawing; a set uses the first that it has.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

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
    """One name of the vocabulary.

    Attributes
    ----------
    name : str
        The name in tables.
    group : str
        "animals", "food", ... for drawn objects; "aerial", "blood" or "nuclei" for real ones.
    synonyms : tuple of str
        Other words for it.
    icons : tuple of str
        Names of its drawing in the emoji sets; empty for real ones.
    templates : tuple of str
        Prompts for this group only.
    """

    name: str
    group: str
    synonyms: tuple[str, ...] = ()
    icons: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()

    @property
    def phrases(self) -> tuple[str, ...]:
        """All phrases; the plain name in the first templates comes first."""
        words = (self.name, *self.synonyms)
        return tuple(t.format(w) for w in words for t in (*TEMPLATES, *self.templates))


def _read() -> tuple[Name, ...]:
    text = files(__package__).joinpath("vocabulary.csv").read_text("utf-8")
    return tuple(
        Name(
            name=row["name"],
            group=row["group"],
            synonyms=tuple(s for s in row["synonyms"].split("|") if s),
            icons=tuple(row["icons"].split("|")),
        )
        for row in csv.DictReader(text.splitlines())
    )


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
# By the rule in docs/lab/demo-model.md, before any training.
CHOSEN: Final[tuple[str, ...]] = (
    "elephant",
    "penguin",
    "turtle",
    "ladybug",
    "snail",
    "whale",
    "frog",
    "apple",
    "strawberry",
    "hamburger",
    "grapes",
    "pineapple",
    "ice cream",
    "birthday cake",
    "car",
    "airplane",
    "rocket",
    "bicycle",
    "tractor",
    "helicopter",
    "sunflower",
    "cactus",
    "palm tree",
    "mushroom",
    "guitar",
    "camera",
    "umbrella",
    "key",
    "house",
    "balloon",
    "crown",
    "dog",
    "horse",
    "lemon",
    "cookie",
    "cherries",
    "locomotive",
    "castle",
    "television",
    "alarm clock",
    "light bulb",
    "hammer",
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
    text = files(__package__).joinpath("weights", "vocabulary.txt").read_text("utf-8")
    return tuple(text.splitlines())


NAMES: Final[tuple[str, ...]] = _bundled()
"""What the bundled weights know, in the order of their training; drawn objects come first."""


def find(name: str) -> Name:
    """Return the entry with this name.

    Raises
    ------
    KeyError
        If there is none.
    """
    for entry in (*OBJECTS, *REAL):
        if entry.name == name:
            return entry
    raise KeyError(name)
