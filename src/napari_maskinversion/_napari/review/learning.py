"""Learning from decisions: a classifier, suggestions by it, and accepted regions of all images.

No Qt, no napari. `learn` and `train` belong in a worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...language.labels.label import Label
from ...language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ...language.ranking.ranking import Ranking
from ...learning.classifier import Classifier
from ...learning.features import UNKNOWN, HasMeasures, measured
from ...results.region_result import RegionResult
from ...results.results import Results
from ...review.decisions import Suggestion
from ...review.exemplar_store import ExemplarKey, LabelledEmbedding, places

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from .decided_elsewhere import Elsewhere, Taught

_NAMED: Final = 5
Example = tuple[npt.NDArray[np.float32], "str | None", str, HasMeasures]


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """Suggestions by a classifier of the decisions."""

    results: Results
    rankings: list[Ranking]  # Of each row
    best: list[str]  # The best suggestion of each row
    changed: frozenset[int]  # Rows whose best suggestion differs from the text's


def learn(
    load: Callable[[], Backbone],
    results: Results,
    decided: Mapping[int, str | None],
    image: str,
    known: Mapping[ExemplarKey, LabelledEmbedding],
    more_words: bool = False,
) -> Learned | None:
    """Rank all rows as decided ones teach, and regions elsewhere; None if they cannot yet.

    Rejected rows have None. Of regions elsewhere, words of the list or of this image count, or
    with ``more_words`` all.
    """
    own = places(results, image)
    others: Taught = {place: (*one, UNKNOWN) for place, one in known.items() if place not in own}
    words, examples = _examples(results, decided, image, others, more_words)
    if len({label for _, label, _, _ in examples}) < 2:
        return None
    begun = _begun(load, results, words, results.info.vocabulary)
    features = begun.features_of([region for *_, region in examples])
    try:
        more = {"features": features, "names": begun.features, "validate": False}
        classifier = _fitted(begun, examples, **more)
    except InputError:  # of one class, once contradictions are left out
        return None
    # Keys accept the words of a ranking; "none of these" is what a region is suggested to be.
    none = (NONE_OF_THESE,) * (NONE_OF_THESE in classifier.classes)
    rankings, among_all = (
        classifier.rank(results.embeddings, classes, (), results.regions)
        for classes in (words.labels, words.labels + none)
    )
    best, changed = [], []
    for row, (every, region) in enumerate(zip(among_all, results.regions, strict=True)):
        first = every.labels[0]
        # "None of these" by the threshold stays unless decisions change the word.
        kept = first == text_best(region) or first == region.suggestion
        best.append(region.suggestion if kept else first)
        if not kept:
            changed.append(row)
    return Learned(results, rankings, best, frozenset(changed))


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A classifier of the decisions at hand."""

    classifier: Classifier
    doubtful: list[int]  # Decided rows of the results that look wrong, the worst first

    @property
    def summary(self) -> str:
        """What was learned, and how well."""
        also = " and measures" * bool(self.classifier.features)
        return f"{sum(self.classifier.counts.values())} decisions{also}. {self.classifier.summary}"


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
    others, notes = elsewhere.taught(results, image), elsewhere.notes
    words, examples = _examples(results, decided, image, others)
    begun, known = _begun(load, results, words), {None, NONE_OF_THESE, *words.words}
    if strange := Counter(label for _, label, _ in others.values() if label not in known):
        named = ", ".join(repr(label) for label, _ in strange.most_common(_NAMED))
        notes.append(
            f"Left out {strange.total()} decisions about other images whose words are not in the "
            f"list: {named}{', ...' * (len(strange) > _NAMED)}"
        )
    kinds = ("shape", "intensity") if measures else ()
    names, kept, features, left_out = measured(kinds, [region for *_, region in examples])
    examples = [examples[row] for row in kept]
    classifier = _fitted(begun, examples, features=features, names=names)
    rows = [list(decided)[row] for row in kept if row < len(decided)]
    doubts = classifier.doubtful([label for _, label, _, _ in examples])
    notes += [*left_out, *classifier.notes]
    own = [rows[row] for row, _ in doubts if row < len(rows)]
    return Trained(replace(classifier, notes=tuple(notes)), own)


def _examples(
    results: Results,
    decided: Mapping[int, str | None],
    image: str,
    others: Taught,
    more_words: bool = False,
) -> tuple[Vocabulary, list[Example]]:
    """Return words, and decided rows and other regions: embedding, label, image, measures."""
    if (vocabulary := results.info.vocabulary) is None:
        raise InputError("These results have no words; run again with some first.")
    listed = [one for one in vocabulary.full_labels if one.name != NONE_OF_THESE]
    taught = [*decided.values(), *(label for _, label, _ in others.values() if more_words)]
    typed = {*taught} - {None, NONE_OF_THESE, *vocabulary.words}
    words = Vocabulary.of([*listed, *map(Label, sorted(map(str, typed)))], vocabulary.templates)
    known, rows = {None, NONE_OF_THESE, *words.words}, results.regions
    examples: list[Example] = [
        (results.embeddings[row], label, image, rows[row]) for row, label in decided.items()
    ]
    for place, (vector, label, region) in others.items():
        if label in known:
            examples.append((vector, label, place[0], region))
    return words, examples


def _begun(
    load: Callable[[], Backbone],
    results: Results,
    words: Vocabulary,
    ranked_by: Vocabulary | None = None,
) -> Classifier:
    """Return what these words begin as: the classifier that ranked them, if one did."""
    from ...language.text import embed_vocabulary
    from ...learning.classifier import Classifier
    from ...learning.ranking import classifier_of
    from ...results.spaces import Space

    model = load()
    if model.fingerprint != results.info.fingerprint:
        raise InputError("These suggestions are of another model; run again first.")
    texts, about = embed_vocabulary(model, words), Space.of(results).about
    if ranked_by is not None and ranked_by.learned is not None:
        return classifier_of(replace(words, learned=ranked_by.learned), texts)
    return Classifier.of_words(words, texts, model.logit_scale, about)


def _fitted(begun: Classifier, examples: Sequence[Example], **more: Any) -> Classifier:
    vectors = np.array([one[0] for one in examples]).reshape(-1, begun.texts.shape[1])
    return begun.fit(vectors, [one[1] for one in examples], [one[2] for one in examples], **more)


def text_best(region: RegionResult) -> str:
    """Return the nearest label by text alone; empty without labels."""
    return "" if region.ranking is None else region.ranking.labels[0]


def text_figures(region: RegionResult, label: str) -> dict[str, float]:
    """Return confidence, similarity and margin of a label; empty if the results hold them.

    The margin is below zero: the best label is nearer.
    """
    ranking = region.ranking
    if ranking is None or label in (ranking.labels[0], NONE_OF_THESE):
        return {}
    if label not in ranking.labels:
        return dict.fromkeys(("probability", "similarity", "margin"), float("nan"))
    place = ranking.labels.index(label)
    similarity = float(ranking.similarities[place])
    return {
        "probability": float(ranking.probabilities[place]),
        "similarity": similarity,
        "margin": similarity - float(ranking.similarities[0]),
    }


def top_of(ranking: Ranking | None, count: int, by: str = "text") -> tuple[Suggestion, ...]:
    """Return the best labels of a ranking."""
    if ranking is None:
        return ()
    rows = zip(ranking.labels, ranking.similarities, ranking.probabilities, strict=True)
    return tuple(
        Suggestion(label=label, rank=rank, similarity=float(similarity), by=by, score=float(chance))
        for rank, (label, similarity, chance) in zip(range(1, count + 1), rows, strict=False)
    )


@dataclass(slots=True)
class KnownRegions:
    """Accepted regions of all images, by the model that embedded them.

    An image may be reviewed plane by plane or run again: new values of a region replace its old
    ones, and other regions stay.
    """

    # None: the region is not accepted, even if an earlier session kept it.
    _known: dict[str, dict[ExemplarKey, LabelledEmbedding | None]] = field(default_factory=dict)

    def change(
        self, results: Results, image: str, rows: Mapping[int, str | None]
    ) -> dict[ExemplarKey, LabelledEmbedding | None]:
        """Take changed rows with their label or None; return their entries."""
        changes: dict[ExemplarKey, LabelledEmbedding | None] = {}
        for row, label in rows.items():
            region = results.regions[row]
            place = (image, region.key)
            changes[place] = None if label is None else (region.embedding, label)
        self._known.setdefault(results.info.space, {}).update(changes)
        return changes

    def add(self, space: str, kept: Mapping[ExemplarKey, LabelledEmbedding]) -> None:
        """Add regions of earlier sessions; newer entries win."""
        self._known[space] = {**kept, **self._known.get(space, {})}

    def accepted(self, results: Results) -> dict[ExemplarKey, LabelledEmbedding]:
        """Return the accepted regions embedded by the model of these results."""
        known = self._known.get(results.info.space, {})
        return {place: one for place, one in known.items() if one is not None}
