"""Sentences about the names of a demo model, on which its caption decoder is trained.

They say what the text tower tells apart and the images show: one to three things, drawn or real.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch

from ..vocabulary import Name, find

# Names without an article: substances and plurals.
_NO_ARTICLE: Final = frozenset({"water", "vegetation", "unpaved land", "grapes", "cherries"})
ONE: Final[dict[str, tuple[str, ...]]] = {
    "aerial": ("an aerial photo of {}", "a satellite image of {}", "{} seen from above"),
    "blood": ("{} in a blood smear", "a microscopy image of {}"),
    "nuclei": ("a microscopy image of {}",),
    "": ("{}", "a picture of {}", "a drawing of {}"),
}
"""Sentences about one thing, by the group of its name; "" is for drawn things."""
SEVERAL: Final = ("{}", "a picture of {}", "a drawing of {}")


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


def sentences_about(name: Name) -> list[str]:
    """Return all sentences about one thing; each ends with a full stop."""
    templates = ONE.get(name.group, ONE[""])
    return [f"{template.format(with_article(name.name))} ." for template in templates]


def sentence_about(names: Sequence[Name], rng: torch.Generator) -> str:
    """Return a random sentence about two or three things."""
    listed = [with_article(name.name) for name in names]
    text = " and ".join([" , ".join(listed[:-1]), listed[-1]])
    return f"{SEVERAL[int(torch.randint(len(SEVERAL), (1,), generator=rng))].format(text)} ."


def as_text(sentence: str) -> str:
    """Return a sentence as the text tower reads it."""
    return sentence.removesuffix(" .").replace(" ,", ",")


def names_in(sentence: str, names: Sequence[Name]) -> list[str]:
    """Return the names that a sentence mentions, in its order; longer names hide shorter ones."""
    text = f" {sentence.lower().rstrip('.').replace(',', ' ,')} "
    places = {}
    for entry in sorted(names, key=lambda entry: -len(entry.name)):
        word = f" {entry.name} "
        if word in text:
            places[entry.name] = text.index(word)
            text = text.replace(word, " " * len(word))
    return sorted(places, key=lambda name: places[name])
