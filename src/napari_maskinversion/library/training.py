"""A classifier learned from the decisions in a library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ..base.errors import InputError
from ..language.labels.presets import vocabulary_of
from ..language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ..language.text import embed_vocabulary
from ..learning.classifier import Classifier

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..results.spaces import Space
    from .filters import Where
    from .library import Library

_LISTED: Final = 10


def train(
    library: Library,
    words: str | Sequence[str] | Vocabulary | None,
    model: Backbone | Callable[[Space], Backbone],
    templates: Sequence[str],
    where: Where,
) -> Classifier:
    """Learn from the regions of a library that fit filters; see `Library.train`."""
    filters: Any = {**where, "decision": ("accepted", "rejected")}
    rows = library.rows(**filters)
    if not len(rows):
        raise InputError(
            f"The library {library.folder} has no decisions: accept or reject regions in a review, "
            "then add the results again."
        )
    counts = rows["space"].value_counts()
    space = library.space(rows["id"][rows["space"] == counts.index[0]].tolist())
    rows = rows[rows["space"] == space.id]
    labels = [name or None for name in rows["label"]]
    if words is None:
        accepted = Counter(name for name in labels if name not in (None, NONE_OF_THESE))
        if not accepted:
            raise InputError("Every region was rejected: there are no words to learn; name some.")
        words = [str(name) for name, _ in accepted.most_common()]
    vocabulary = vocabulary_of(words, templates)
    loaded = model(space) if callable(model) else model
    library.check_model(loaded, space)
    texts = embed_vocabulary(loaded, vocabulary)
    begun = Classifier.of_words(vocabulary, texts, loaded.logit_scale, space.about)
    images = rows["image"] + "\0" + rows["series"].astype(str)
    fitted = begun.fit(library.vectors(rows["id"].tolist()), labels, images.tolist())
    if found := fitted.doubtful(labels):
        listed = ", ".join(
            f"{rows['id'].iloc[row]} ({labels[row] or NONE_OF_THESE}, looks like {name})"
            for row, name in found[:_LISTED]
        )
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        note = f"Decisions that may be wrong, by number in the library: {listed}{more}"
        fitted = replace(fitted, notes=(*fitted.notes, note))
    if len(counts) > 1:
        others = ", ".join(map(str, counts.index[1:]))
        note = (
            f"Left out {counts.iloc[1:].sum()} regions of other models or settings (space "
            f"{others}), whose embeddings cannot be compared."
        )
        fitted = replace(fitted, notes=(note, *fitted.notes))
    return fitted
