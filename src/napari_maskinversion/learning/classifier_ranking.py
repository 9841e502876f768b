"""Words ranked for regions: by their similarity, or by the classifier that a vocabulary names."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ..language.ranking.ranking import Ranking, rank
from ..results.recipe import Recipe, weights_sha256
from ..results.settings import RunSettings
from ..results.spaces import Space
from .classifier import Classifier
from .features import MEASURE, HasMeasures, has_all, needs_measures

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]


class Ranker:
    """Ranks labels: by the classifier of a vocabulary, whose file it reads once, or by words.

    A classifier that no file holds is passed with its vocabulary.
    """

    def __init__(self, vocabulary: Vocabulary, unsaved: Classifier | None = None) -> None:
        self.vocabulary = vocabulary
        learned = vocabulary.learned
        if learned is None:
            self._classifier = None
        else:
            self._classifier = unsaved or _classifier(vocabulary)
        self._name = "" if learned is None else learned.name
        self._is_saved = learned is None or learned.is_saved

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures of regions that the classifier takes."""
        if self._classifier is None:
            return ()
        return needs_measures(self._classifier.features)

    def check_space(self, settings: RunSettings, fingerprint: str) -> None:
        """Refuse a classifier that was trained on other embeddings than those of a run."""
        if self._classifier is None or not self._classifier.space:
            return
        trained = Space(about=self._classifier.space, width=self._classifier.texts.shape[1]).recipe
        method_sha256 = weights_sha256(settings.method)
        planned = Recipe.of_space(settings, fingerprint, method_sha256=method_sha256)
        different = trained.differences(planned)
        if different:
            texts = ", ".join(difference.text for difference in different)
            raise InputError(
                f"The classifier {self._name} was trained on embeddings of {texts}; run with the "
                "same settings, or train it on results of these."
            )

    def check_measures(self, regions: Iterable[HasMeasures]) -> None:
        """Refuse regions none of which has what the classifier takes."""
        names = self.measures
        regions = list(regions)
        if not names or any(has_all(region, names) for region in regions):
            return
        there = max((region.measures for region in regions), key=len, default={})
        missing = [name for name in names if name not in there]
        need = "channels that it was trained on" if there else f"measures: {MEASURE}"
        raise InputError(
            f"The classifier {self._name} takes {', '.join(missing)} of each region, which are "
            f"missing here; it needs the {need}."
        )

    def rank(
        self,
        model: Backbone,
        embeddings: FloatArray,
        texts: FloatArray,
        unknown: Collection[str] = (),
        regions: Iterable[HasMeasures] = (),
    ) -> list[Ranking]:
        """Rank the labels for regions; ``regions`` are those of the embeddings.

        Shapes: embeddings (N, e), unit norm; texts (words, e).
        """
        labels = self.vocabulary.labels
        limit = self.vocabulary.threshold
        if self._classifier is None:
            return rank(
                embeddings,
                texts,
                labels,
                model.logit_scale,
                owners=self.vocabulary.owners,
                threshold=limit,
                unknown=unknown,
            )
        if not self._is_saved:  # the threshold is for the ranking before
            return self._classifier.rank(embeddings, labels, unknown, regions, rejects=True)
        classifier = _with_words(self._classifier, self.vocabulary, texts)
        return classifier.rank(embeddings, labels, unknown, regions, limit)


def classifier_of(vocabulary: Vocabulary, texts: FloatArray) -> Classifier:
    """Return the classifier that a vocabulary names, with the words that it does not know."""
    return _with_words(_classifier(vocabulary), vocabulary, texts)


def _with_words(classifier: Classifier, vocabulary: Vocabulary, texts: FloatArray) -> Classifier:
    classes = {*classifier.classes}
    more = [label for label in vocabulary.full_labels if label.name not in classes]
    if not more:
        return classifier
    places = [vocabulary.labels.index(label.name) for label in more]
    rows = []
    for row, owner in enumerate(vocabulary.owners):
        if owner in places:
            rows.append(row)
    return classifier.with_words(Vocabulary.of(more), texts[rows])


def _classifier(vocabulary: Vocabulary) -> Classifier:
    assert vocabulary.learned is not None
    if not vocabulary.learned.is_saved:
        raise InputError(
            "These results were ranked by the decisions of a review, in a classifier that was not "
            "saved; choose words, or save one by Learn... and load it."
        )
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
