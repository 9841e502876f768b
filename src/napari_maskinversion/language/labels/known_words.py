"""Words that a model trained by this package does not know."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...engine.models.specs import DEMO, bundled_folder
from .label import Label
from .presets import taught

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from .vocabulary import Vocabulary

_LISTED: Final = 3  # words in a note
_FILE: Final = "vocabulary.txt"  # beside the weights, as the training writes it


def unknown_words(labels: Iterable[Label], model: str) -> tuple[str, ...]:
    """Return the names of labels that a model was not taught, under any of their words.

    Capitals, hyphens and a plural's s do not matter. What a CLIP knows cannot be told by its
    tokenizer: for such models nothing is returned.
    """
    known = _known(model)
    if known is None:
        return ()
    return tuple(
        label.name for label in labels if not any(_plain(word) in known for word in label.words)
    )


def unknown_to(model: Backbone, vocabulary: Vocabulary | None) -> frozenset[str]:
    """Return the labels of a vocabulary that a loaded model was not taught."""
    if vocabulary is None:
        return frozenset()
    return frozenset(unknown_words(vocabulary.full_labels, taught_by(model)))


def taught_by(model: Backbone) -> str:
    """Return the folder of a loaded model, or its name, for `unknown_words`."""
    spec = model.spec
    return model.name if spec is None or spec.bundled else spec.source or model.name


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
    file = (bundled_folder() if model == DEMO else Path(model)) / _FILE
    if not file.is_file():
        return None
    names = filter(None, file.read_text("utf-8").splitlines())
    return frozenset(_plain(word) for label in taught(names) for word in label.words)


def _plain(word: str) -> str:
    """Return a word as it is compared."""
    plain = " ".join(word.casefold().replace("-", " ").replace("_", " ").split())
    return plain[:-1] if plain.endswith("s") and not plain.endswith("ss") else plain
