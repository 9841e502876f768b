"""Words that a model trained by this package does not know."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from ..engine.models.specs import DEMO
from ..language.labels.label import Label
from .vocabulary import NAMES, find

_LISTED: Final = 3  # words in a note
_FILE: Final = "vocabulary.txt"  # as `demo_model.model` writes it, which needs torch


def unknown_words(labels: Iterable[Label], model: str) -> tuple[str, ...]:
    """Return the names of labels that a model was not taught, under any of their words.

    Capitals, hyphens and a plural's s do not matter. What a CLIP knows cannot be told by its
    tokenizer: for such models nothing is returned.

    Parameters
    ----------
    labels : iterable of Label
        `Vocabulary.full_labels`, or labels as they are typed.
    model : str
        Its name, or the folder of a model that ``rebuild-demo`` wrote.
    """
    known = _known(model)
    if known is None:
        return ()
    return tuple(
        label.name for label in labels if not any(_plain(word) in known for word in label.words)
    )


def unknown_words_note(labels: Iterable[Label], model: str) -> str:
    """Return one line about the words that a model was not taught; "" if it knows all."""
    unknown = unknown_words(labels, model)
    if not unknown:
        return ""
    whose = "the demo model" if model == DEMO else "this model"
    count = "1 word" if len(unknown) == 1 else f"{len(unknown)} words"
    rest = len(unknown) - _LISTED
    more = f" and {rest} more" if rest > 0 else ""
    return f"{count} that {whose} does not know: {', '.join(unknown[:_LISTED])}{more}"


@cache
def _known(model: str) -> frozenset[str] | None:
    """Return all words that a model was taught; None if that cannot be told."""
    names: Iterable[str] = NAMES
    if model != DEMO:
        file = Path(model) / _FILE
        if not file.is_file():
            return None
        names = file.read_text("utf-8").splitlines()
    words: set[str] = set()
    for name in filter(None, names):
        try:
            words.update((name, *find(name).synonyms))
        except KeyError:  # taught by another version of this package
            words.add(name)
    return frozenset(map(_plain, words))


def _plain(word: str) -> str:
    """Return a word as it is compared."""
    plain = " ".join(word.casefold().replace("-", " ").replace("_", " ").split())
    return plain[:-1] if plain.endswith("s") and not plain.endswith("ss") else plain
