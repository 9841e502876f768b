"""A classifier learned from the decisions in a library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..language.labels.presets import vocabulary_of
from ..language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ..language.text import embed_vocabulary
from ..learning.classifier import Classifier
from ..learning.features import features_of

if TYPE_CHECKING:
    import pandas as pd

    from ..engine.models.backbone import Backbone
    from ..results.spaces import Space

FloatArray = npt.NDArray[np.float32]
_LISTED: Final = 10
_BOX: Final = ("y0", "x0", "y1", "x1")


class _Shape(NamedTuple):
    area: float
    bbox: tuple[int, int, int, int]


def train(
    rows: pd.DataFrame,
    vectors: FloatArray,
    space: Space,
    words: str | Sequence[str] | Vocabulary | None,
    model: Backbone,
    templates: Sequence[str],
    *,
    features: bool,
) -> Classifier:
    """Learn from decided regions of a library; see `Library.train`.

    Rows of other spaces are named; vectors (n, e) are those of this one.
    """
    others = rows[rows["space"] != space.id]
    rows = rows[rows["space"] == space.id]
    labels = [name or None for name in rows["label"]]
    if words is None:
        accepted = Counter(name for name in labels if name not in (None, NONE_OF_THESE))
        if not accepted:
            raise InputError("Every region was rejected: there are no words to learn; name some.")
        words = [str(name) for name, _ in accepted.most_common()]
    vocabulary = vocabulary_of(words, templates)
    texts = embed_vocabulary(model, vocabulary)
    begun = Classifier.of_words(vocabulary, texts, model.logit_scale, space.about)
    images = rows["image"] + "\0" + rows["series"].astype(str)
    shapes = features_of(map(_Shape, rows["area"], zip(*(rows[one] for one in _BOX), strict=True)))
    fitted = begun.fit(vectors, labels, images.tolist(), features=shapes if features else None)
    if doubts := fitted.doubtful(labels):
        listed = ", ".join(
            f"{rows['id'].iloc[row]} ({labels[row] or NONE_OF_THESE}, looks like {name})"
            for row, name in doubts[:_LISTED]
        )
        more = f" and {len(doubts) - _LISTED} more" if len(doubts) > _LISTED else ""
        note = f"Decisions that may be wrong, by number in the library: {listed}{more}"
        fitted = replace(fitted, notes=(*fitted.notes, note))
    if len(others):
        numbers = ", ".join(map(str, sorted(set(others["space"]))))
        note = (
            f"Left out {len(others)} regions of other models or settings (space {numbers}), whose "
            "embeddings cannot be compared."
        )
        fitted = replace(fitted, notes=(note, *fitted.notes))
    return fitted
