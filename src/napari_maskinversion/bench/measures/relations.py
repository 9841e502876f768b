"""Places and sizes that a sentence names, as ReCLIP adds them to its scores of regions.

A parser says which part of a sentence names the region, to which other thing it stands in which
relation, and which extreme it is. ReCLIP takes the parser of spaCy; `by_words` looks for words and
needs no package. Any other can be passed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...base.regions import Regions

Floats = NDArray[np.float64]
_LEAST: Final = 1e-12  # probability


@dataclass(frozen=True, slots=True)
class Phrase:
    """A parsed sentence.

    Attributes
    ----------
    head : str
        What names the region.
    relation, other : str
        A name of `RELATIONS`, and the thing that it stands in it to; "" for none.
    extreme : str
        A name of `EXTREMES`; "" for none.
    """

    head: str
    relation: str = ""
    other: str = ""
    extreme: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts whose scores are needed besides those of the sentence."""
        return (self.head, self.other) if self.relation else (self.head,)


Parser = Callable[[str], Phrase]

# By place: x, y of a box's centre, and its area; -1 says that less of it is more of the relation.
_MEASURES: Final = {
    "left": (0, -1),
    "right": (0, 1),
    "above": (1, -1),
    "below": (1, 1),
    "larger": (2, 1),
    "smaller": (2, -1),
}
RELATIONS: Final[dict[str, str]] = {
    "left": r"(?:to |on )?(?:the )?left (?:side )?of|left from",
    "right": r"(?:to |on )?(?:the )?right (?:side )?of|right from",
    "above": r"above|on top of|over",
    "below": r"below|under|underneath|beneath",
    "larger": r"(?:bigger|larger|taller) than",
    "smaller": r"(?:smaller|shorter) than",
}
EXTREMES: Final[dict[str, str]] = {
    "left": r"left|leftmost|left-most|western",
    "right": r"right|rightmost|right-most|eastern",
    "above": r"top|topmost|upper|uppermost|highest",
    "below": r"bottom|lowest|lower|bottommost",
    "larger": r"biggest|largest|tallest|closest|nearest",
    "smaller": r"smallest|tiniest|shortest|farthest|furthest",
}


def by_words(sentence: str) -> Phrase:
    """Parse a sentence by the words for relations and extremes in it."""
    text = " ".join(sentence.lower().split())
    for relation, pattern in RELATIONS.items():
        parts = re.split(rf"\b(?:{pattern})\b", text, maxsplit=1)
        if len(parts) == 2 and all(part.strip() for part in parts):
            return Phrase(parts[0].strip(), relation, parts[1].strip())
    for extreme, pattern in EXTREMES.items():
        if re.search(rf"\b(?:{pattern})\b", text):
            return Phrase(text, extreme=extreme)
    return Phrase(text)


def related(
    logits: Floats, phrases: Sequence[Phrase], texts: Sequence[str], regions: Regions
) -> Floats:
    """Return logarithms of probabilities of regions, with relations and extremes.

    The probability by the whole sentence is multiplied by the one by its parts.

    Parameters
    ----------
    logits : ndarray, shape (T, N)
        Scores of ``texts`` and regions: first the sentences, then what `Phrase.texts` names.
    phrases : sequence of Phrase
        One a sentence.
    texts : sequence of str, length T
    regions : Regions

    Returns
    -------
    ndarray, shape (sentences, N)
    """
    shares = np.exp(logits - logits.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    places = {text: place for place, text in enumerate(texts)}
    boxes = np.array([region.bbox for region in regions], float)
    y0, x0, y1, x1 = boxes.T
    values = np.stack([(x0 + x1) / 2, (y0 + y1) / 2, (y1 - y0) * (x1 - x0)])
    rows = []
    for row, phrase in zip(shares, phrases, strict=False):
        if phrase.relation:
            fits = _compared(values, phrase.relation) @ shares[places[phrase.other]]
            row = row * shares[places[phrase.head]] * fits
        elif phrase.extreme:
            row = row * (_compared(values, phrase.extreme) @ row)
        rows.append(np.log(np.maximum(row, _LEAST)))
    return np.array(rows)


def _compared(values: Floats, name: str) -> Floats:
    """Return (N, N): whether region i is more of something than region j."""
    which, sign = _MEASURES[name]
    own = sign * values[which]
    return np.asarray(own[:, None] > own[None], np.float64)
