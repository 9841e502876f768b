"""A classifier learned from the decisions in a library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..base.errors import InputError
from ..base.wording import counted, short_names
from ..language.labels.presets import vocabulary_of
from ..language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ..language.text import embed_vocabulary
from ..learning.classifier import Classifier
from ..learning.evidence import doubt_text
from ..learning.samples import fit_samples

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..results.spaces import Space
    from .training_samples import LibrarySample


def train(
    samples: Sequence[LibrarySample],
    space: Space,
    words: str | Sequence[str] | Vocabulary | None,
    model: Backbone,
    templates: Sequence[str],
    kinds: Sequence[str] = (),
) -> Classifier:
    """Learn from decided regions of a space; see `Library.train`."""
    if words is None:
        labels = (stored.sample.label for stored in samples)
        accepted = Counter(label for label in labels if label not in (None, NONE_OF_THESE))
        if not accepted:
            raise InputError("Every region was rejected: there are no words to learn; name some.")
        words = [str(name) for name, _ in accepted.most_common()]
    vocabulary = vocabulary_of(words, templates)
    texts = embed_vocabulary(model, vocabulary)
    untrained = Classifier.of_words(vocabulary, texts, model.logit_scale, space.about)
    fitted = fit_samples(untrained, [stored.sample for stored in samples], kinds)
    kept = [samples[row] for row in fitted.kept]
    labels_kept = [stored.sample.label for stored in kept]
    files = short_names(dict.fromkeys(stored.image for stored in kept))
    doubts = []
    for row, looks_like in fitted.classifier.doubtful(labels_kept):
        stored = kept[row]
        plane = ""
        if stored.plane:
            plane = f"{stored.plane} "
        where = f"{files[stored.image]} {plane}{stored.sample.key.id}"
        doubts.append(doubt_text(where, stored.sample.label, looks_like))
    return replace(fitted.classifier, doubts=tuple(doubts))


def other_spaces_note(count: int, spaces: Sequence[int]) -> str:
    """Say how many decided regions were left out because they are of other spaces."""
    numbers = ", ".join(map(str, sorted(spaces)))
    return (
        f"Left out {counted(count, 'region')} of other models or settings (space {numbers}), "
        "whose embeddings cannot be compared."
    )
