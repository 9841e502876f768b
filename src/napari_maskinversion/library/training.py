"""A classifier learned from the decisions in a library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.wording import counted
from ..language.labels.presets import vocabulary_of
from ..language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ..language.text import embed_vocabulary
from ..learning.classifier import Classifier
from ..learning.evidence import doubt_text
from ..learning.features import Measured, measured
from .searching import short_names

if TYPE_CHECKING:
    import pandas as pd

    from ..engine.models.backbone import Backbone
    from ..results.spaces import Space

FloatArray = npt.NDArray[np.float32]
_BOX: Final = ("y0", "x0", "y1", "x1")


def train(
    rows: pd.DataFrame,
    vectors: FloatArray,
    space: Space,
    words: str | Sequence[str] | Vocabulary | None,
    model: Backbone,
    templates: Sequence[str],
    kinds: Sequence[str] = (),
    measures: Sequence[Mapping[str, float]] = (),
) -> Classifier:
    """Learn from decided regions of a library; see `Library.train`.

    Rows of other spaces are named; vectors (n, e) are those of this one; measures are of all rows.
    """
    is_here = (rows["space"] == space.id).to_numpy()
    others, rows = rows[~is_here], rows[is_here]
    boxes = zip(*(rows[one] for one in _BOX), strict=True)
    regions = list(map(Measured, rows["area"], boxes, compress(measures, is_here)))
    names, kept, features, notes = measured(kinds, regions)
    rows, vectors = rows.iloc[kept], vectors[kept]
    labels = [name or None for name in rows["label"]]
    if words is None:
        accepted = Counter(name for name in labels if name not in (None, NONE_OF_THESE))
        if not accepted:
            raise InputError("Every region was rejected: there are no words to learn; name some.")
        words = [str(name) for name, _ in accepted.most_common()]
    vocabulary = vocabulary_of(words, templates)
    texts = embed_vocabulary(model, vocabulary)
    begun = Classifier.of_words(vocabulary, texts, model.logit_scale, space.about)
    # By content: a copy of an image is no other image.
    images = rows["content"].where(rows["content"] != "", rows["image"])
    images = images + "\0" + rows["series"].astype(str)
    fitted = begun.fit(vectors, labels, images.tolist(), features=features, names=names)
    fitted = replace(fitted, notes=(*notes, *fitted.notes))
    files = short_names(rows["image"])
    named = zip(rows["image"].map(files), rows["plane"], rows["region"], strict=True)
    where = [f"{image} {f'{plane} ' * bool(plane)}{region}" for image, plane, region in named]
    doubts = (doubt_text(where[row], labels[row], name) for row, name in fitted.doubtful(labels))
    fitted = replace(fitted, doubts=tuple(doubts))
    if len(others):
        numbers = ", ".join(map(str, sorted(set(others["space"]))))
        note = (
            f"Left out {counted(len(others), 'region')} of other models or settings (space "
            f"{numbers}), whose embeddings cannot be compared."
        )
        fitted = replace(fitted, notes=(note, *fitted.notes))
    return fitted
