"""Words ranked for regions: by their similarity, or by the classifier that a vocabulary names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ..language.ranking.ranking import Ranking, rank
from ..results.settings import RunSettings
from ..results.spaces import Space
from .classifier import Classifier
from .features import MEASURE, HasMeasures, has_all, needs_measures

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]


def rank_words(
    model: Backbone,
    embeddings: FloatArray,
    vocabulary: Vocabulary,
    texts: FloatArray,
    unknown: Collection[str] = (),
    regions: Iterable[HasMeasures] = (),
) -> list[Ranking]:
    """Rank the labels of a vocabulary for regions.

    ``regions`` are those of the embeddings. Shapes: embeddings (N, e), unit norm; texts (words, e).
    """
    if vocabulary.learned is None:
        return rank(
            embeddings,
            texts,
            vocabulary.labels,
            model.logit_scale,
            owners=vocabulary.owners,
            threshold=vocabulary.threshold,
            unknown=unknown,
        )
    classifier = classifier_of(vocabulary, texts)
    return classifier.rank(embeddings, vocabulary.labels, unknown, regions, vocabulary.threshold)


def classifier_of(vocabulary: Vocabulary, texts: FloatArray) -> Classifier:
    """Return the classifier that a vocabulary names, with the words that it does not know."""
    classifier = _classifier(vocabulary)
    known = {*classifier.classes}
    more = [label for label in vocabulary.full_labels if label.name not in known]
    if not more:
        return classifier
    places = [vocabulary.labels.index(label.name) for label in more]
    rows = [row for row, owner in enumerate(vocabulary.owners) if owner in places]
    return classifier.with_words(Vocabulary.of(more), texts[rows])


def check_space(vocabulary: Vocabulary | None, settings: RunSettings, space: str) -> None:
    """Refuse a classifier that was trained on other embeddings than those of a run."""
    if vocabulary is None or vocabulary.learned is None:
        return
    classifier = _classifier(vocabulary)
    if not classifier.space:
        return
    trained = Space(about=classifier.space, width=classifier.texts.shape[1])
    if different := trained.differences(Space.planned(settings, space, trained.width)):
        raise InputError(
            f"The classifier {vocabulary.learned.name} was trained on embeddings of "
            f"{', '.join(different)}; run with the same settings, or train it on results of these."
        )


def measures_of(vocabulary: Vocabulary | None) -> tuple[str, ...]:
    """Return the measures of regions that the classifier of a vocabulary takes."""
    if vocabulary is None or vocabulary.learned is None:
        return ()
    return needs_measures(_classifier(vocabulary).features)


def check_measures(vocabulary: Vocabulary, regions: Iterable[HasMeasures]) -> None:
    """Refuse regions none of which has what the classifier takes."""
    names, regions = measures_of(vocabulary), list(regions)
    if not names or any(has_all(one, names) for one in regions):
        return
    assert vocabulary.learned is not None
    there = max((one.measures for one in regions), key=len, default={})
    missing = [name for name in names if name not in there]
    what = "channels that it was trained on" if there else f"measures: {MEASURE}"
    raise InputError(
        f"The classifier {vocabulary.learned.name} takes {', '.join(missing)} of each region, "
        f"which are missing here; it needs the {what}."
    )


def _classifier(vocabulary: Vocabulary) -> Classifier:
    assert vocabulary.learned is not None
    if (file := vocabulary.learned.file) is None:
        raise InputError(
            f"These results do not say where the classifier {vocabulary.learned.name} lies; load "
            "it again, or choose words."
        )
    classifier = Classifier.load(file)
    if NONE_OF_THESE in {*vocabulary.labels} - {*classifier.classes}:
        raise InputError(
            f"The classifier {vocabulary.learned.name} learned no {NONE_OF_THESE!r}; leave it out "
            "of the words, or train with rejected regions."
        )
    return classifier
