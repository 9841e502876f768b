"""Learning from decisions: a classifier, and results ranked by it.

No Qt, no napari. `learn` and `train` belong in a worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from ...base.errors import InputError
from ...base.identity import RegionKey
from ...base.wording import counted
from ...language.labels.label import Label
from ...language.labels.learned import UNSAVED, Learned
from ...language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ...learning.classifier import Classifier
from ...learning.evidence import doubt_text
from ...learning.features import UNKNOWN
from ...learning.samples import (
    LabelledEmbedding,
    RegionOfImage,
    TrainingSample,
    fit_embeddings,
    fit_samples,
)
from ...results.results import Results
from .decided_elsewhere import places_of
from .region_place import RegionPlace

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from .decided_elsewhere import Elsewhere, Samples

_NAMED: Final = 5


def learn(
    load: Callable[[], Backbone],
    results: Results,
    decided: Mapping[int, str | None],
    image: str,
    known: Mapping[RegionOfImage, LabelledEmbedding],
    more_words: bool = False,
) -> Results | None:
    """Rank all rows as decided ones teach, and regions elsewhere; None if they cannot yet.

    Rejected rows have None. Of regions elsewhere, words of the list or of this image count, or
    with ``more_words`` all. The results may be ranked by earlier decisions: these count no more.
    """
    from ...pipeline.reranking import rerank

    results = results.without_decisions()
    places_here = places_of(results, image)
    samples_elsewhere: Samples = {}
    for place, (embedding, label) in known.items():
        if place not in places_here:
            samples_elsewhere[place] = TrainingSample(embedding, label, *place, UNKNOWN)
    words, samples = _samples(results, decided, image, samples_elsewhere, more_words)
    if len({sample.label for sample in samples}) < 2:
        return None
    untrained = _untrained(load, results, words, results.info.vocabulary)
    features = untrained.features_of([sample.measures for sample in samples])
    try:
        classifier = fit_embeddings(
            untrained, samples, features=features, names=untrained.features, validate=False
        )
    except InputError:  # of one class, once contradictions are left out
        return None
    chosen = results.info.vocabulary
    assert chosen is not None  # without words there is nothing to begin as
    return rerank(load(), results, _named(words, chosen, classifier), classifier)


def _named(words: Vocabulary, chosen: Vocabulary, classifier: Classifier) -> Vocabulary:
    """Return words that name the classifier that ranks them, and what they were chosen as."""
    count = sum(classifier.counts.values())
    learned = Learned(
        name=f"{UNSAVED} ({counted(count, 'decision')})",
        sha256=classifier.content_hash,
        decisions=count,
        calibrated=False,
        chosen=chosen.labels,
        begun_as=chosen.learned,
    )
    return replace(words, threshold=chosen.threshold, learned=learned)


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A classifier of the decisions at hand."""

    classifier: Classifier
    image: str  # Its pixels' hash
    doubtful: list[RegionKey]  # Decided regions of the results that look wrong, the worst first
    places: list[RegionPlace]  # All that look wrong in the project or, without one, the library

    @property
    def summary(self) -> str:
        """What was learned, and how well."""
        learned_from = f"{sum(self.classifier.counts.values())} decisions"
        if self.classifier.features:
            learned_from += " and measures"
        return f"{learned_from}. {self.classifier.summary}"


def train(
    load: Callable[[], Backbone],
    results: Results,
    decided: Mapping[int, str | None],
    image: str,
    elsewhere: Elsewhere,
    measures: bool = False,
) -> Trained:
    """Learn from decisions: rows with their label, None for rejected ones, and other images.

    Of other images, words of the list or of this image count; with ``measures``, regions that were
    measured, and what was.
    """
    results = results.without_decisions()
    samples_elsewhere = elsewhere.samples(results, image)
    notes = elsewhere.notes  # which `samples` has written
    words, samples = _samples(results, decided, image, samples_elsewhere)
    untrained = _untrained(load, results, words)
    listed = {None, NONE_OF_THESE, *words.words}
    unlisted = Counter(
        sample.label for sample in samples_elsewhere.values() if sample.label not in listed
    )
    if unlisted:
        named = ", ".join(repr(label) for label, _ in unlisted.most_common(_NAMED))
        if len(unlisted) > _NAMED:
            named += ", ..."
        notes.append(
            f"Left out {counted(unlisted.total(), 'decision')} about other images with words that "
            f"are not in the list: {named}"
        )
    kinds = ("shape", "intensity") if measures else ()
    classifier, kept = fit_samples(untrained, samples, kinds)
    samples = [samples[row] for row in kept]
    count_here = np.count_nonzero(kept < len(decided))  # they come first
    notes += classifier.notes
    doubtful_here: list[RegionKey] = []
    doubtful_places: list[RegionPlace] = []
    doubts: list[str] = []
    for row, looks_like in classifier.doubtful([sample.label for sample in samples]):
        sample = samples[row]
        key, image_hash = sample.key, sample.image_hash
        where = "region"
        if image_hash != image:
            where = elsewhere.names.get(image_hash, "an earlier image")
        if row < count_here:
            doubtful_here.append(key)
        file = elsewhere.files.get(image_hash)
        if file is not None:
            doubtful_places.append(RegionPlace.of(file, key))
        doubts.append(doubt_text(f"{where} {key}", sample.label, looks_like))
    classifier = replace(classifier, notes=tuple(notes), doubts=tuple(doubts))
    return Trained(classifier, image, doubtful_here, doubtful_places)


def _samples(
    results: Results,
    decided: Mapping[int, str | None],
    image: str,
    others: Samples,
    more_words: bool = False,
) -> tuple[Vocabulary, list[TrainingSample]]:
    """Return words, and samples: the decided rows of the results come first."""
    if (vocabulary := results.info.vocabulary) is None:
        raise InputError("These results have no words; run again with some first.")
    listed = [label for label in vocabulary.full_labels if label.name != NONE_OF_THESE]
    labels = set(decided.values())
    if more_words:
        labels |= {sample.label for sample in others.values()}
    typed = labels - {None, NONE_OF_THESE, *vocabulary.words}
    words = Vocabulary.of([*listed, *map(Label, sorted(map(str, typed)))], vocabulary.templates)
    samples = []
    for row, label in decided.items():
        region = results.regions[row]
        samples.append(TrainingSample(region.embedding, label, image, region.key, region))
    known_words = {None, NONE_OF_THESE, *words.words}
    samples += [sample for sample in others.values() if sample.label in known_words]
    return words, samples


def _untrained(
    load: Callable[[], Backbone],
    results: Results,
    words: Vocabulary,
    ranked_by: Vocabulary | None = None,
) -> Classifier:
    """Return what these words begin as: the classifier that ranked them, if one did."""
    from ...language.text import embed_vocabulary
    from ...learning.classifier_ranking import classifier_of
    from ...results.spaces import Space

    model = load()
    if model.fingerprint != results.info.fingerprint:
        raise InputError("These suggestions are of another model; run again first.")
    texts, about = embed_vocabulary(model, words), Space.of(results).about
    if ranked_by is not None and ranked_by.learned is not None:
        return classifier_of(replace(words, learned=ranked_by.learned), texts)
    return Classifier.of_words(words, texts, model.logit_scale, about)
