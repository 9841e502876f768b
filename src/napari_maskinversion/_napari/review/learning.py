"""Learning from accepted regions: exemplars of all images, and suggestions.

No Qt, no napari. `learn` belongs in a worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.identity import RegionKey
from ...language.labels.label import Label
from ...language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ...language.ranking.ranking import Ranking
from ...review.decisions import Suggestion

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...learning.classifier import Classifier
    from ...results.region_result import RegionResult
    from ...results.results import Results
    from ...review.exemplar_store import ExemplarKey, LabelledEmbedding
    from ...review.exemplars import Exemplars, Learner, Scores
    from .decided_elsewhere import Elsewhere

_NAMED: Final = 5
FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """Suggestions by text and exemplars together."""

    results: Results
    scores: Scores
    best: list[str]  # The best suggestion of each row
    margins: FloatArray  # (N,). Of the scores.
    entropies: FloatArray
    changed: frozenset[int]  # Rows whose best suggestion differs from the text's


def learner_of(results: Results) -> Learner | None:
    """Return what learns from accepted regions; None where there are no labels."""
    from ...review.exemplars import Learner

    try:
        return Learner.from_results(results)
    except InputError:
        return None


def learn(learner: Learner, exemplars: Exemplars, weight: float, results: Results) -> Learned:
    """Score all rows."""
    scores = learner.scores(exemplars, weight=weight)
    best, changed = [], []
    for row, (label, region) in enumerate(zip(scores.best, results.regions, strict=True)):
        other = label != text_best(region)
        # "None of these" stays unless exemplars change it.
        best.append(label if other else region.suggestion)
        if other:
            changed.append(row)
    return Learned(results, scores, best, scores.margins, scores.entropies, frozenset(changed))


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """A classifier of the decisions at hand."""

    classifier: Classifier
    doubtful: list[int]  # Decided rows of the results that look wrong, the worst first

    @property
    def summary(self) -> str:
        """What was learned, and how well."""
        return f"{sum(self.classifier.counts.values())} decisions. {self.classifier.summary}"


def train(
    load: Callable[[], Backbone],
    results: Results,
    decided: Mapping[int, str | None],
    image: str,
    elsewhere: Elsewhere,
) -> Trained:
    """Learn from decisions: rows with their label, None for rejected ones, and other images.

    Of other images, words of the list or of this image count.
    """
    from ...language.text import embed_vocabulary
    from ...learning.classifier import Classifier
    from ...results.spaces import Space

    model, vocabulary = load(), results.info.vocabulary
    if model.fingerprint != results.info.fingerprint or vocabulary is None:
        raise InputError("These suggestions are of another model or of no words; run again first.")
    listed = [one for one in vocabulary.full_labels if one.name != NONE_OF_THESE]
    typed = {*decided.values()} - {None, NONE_OF_THESE, *vocabulary.labels}
    words = Vocabulary.of([*listed, *map(Label, sorted(map(str, typed)))], vocabulary.templates)
    others = elsewhere.taught(results, image)
    known = {None, NONE_OF_THESE, *words.labels}
    kept = [(place[0], *one) for place, one in others.items() if one[1] in known]
    notes = elsewhere.notes
    if strange := Counter(label for _, label in others.values() if label not in known):
        named = ", ".join(repr(label) for label, _ in strange.most_common(_NAMED))
        notes.append(
            f"Left out {strange.total()} decisions about other images whose words are not in the "
            f"list: {named}{', ...' * (len(strange) > _NAMED)}"
        )
    space, texts = Space.of(results).about, embed_vocabulary(model, words)
    begun = Classifier.of_words(words, texts, model.logit_scale, space)
    rows = list(decided)
    labels = [*decided.values(), *(label for _, _, label in kept)]
    own = results.embeddings[rows]
    embeddings = np.vstack([own, *(one[None] for _, one, _ in kept)])
    images = [*[image] * len(rows), *(name for name, _, _ in kept)]
    classifier = begun.fit(embeddings, labels, images)
    doubtful = [rows[row] for row, _ in classifier.doubtful(labels) if row < len(rows)]
    return Trained(replace(classifier, notes=(*notes, *classifier.notes)), doubtful)


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


def text_top(ranking: Ranking | None, count: int) -> tuple[Suggestion, ...]:
    """Return the best labels by text alone."""
    if ranking is None:
        return ()
    rows = zip(ranking.labels, ranking.similarities, ranking.probabilities, strict=True)
    return tuple(
        Suggestion(label=label, rank=rank, similarity=float(similarity), score=float(chance))
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

    def update(
        self, results: Results, image: str, accepted: Mapping[RegionKey, str]
    ) -> dict[ExemplarKey, LabelledEmbedding | None]:
        """Take the accepted regions of results; ``image`` identifies the image."""
        return self.change(
            results,
            image,
            {
                row: accepted.get(RegionKey(region.id, region.position))
                for row, region in enumerate(results.regions)
            },
        )

    def change(
        self, results: Results, image: str, rows: Mapping[int, str | None]
    ) -> dict[ExemplarKey, LabelledEmbedding | None]:
        """Take changed rows with their label or None; return their entries."""
        changes: dict[ExemplarKey, LabelledEmbedding | None] = {}
        for row, label in rows.items():
            region = results.regions[row]
            place = (image, RegionKey(region.id, region.position))
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

    def exemplars(self, results: Results, words: Container[str] | None = None) -> Exemplars:
        """Return the exemplars embedded by the model of these results."""
        from ...review.exemplars import Exemplars

        fingerprint, dimensions = results.info.space, results.info.embed_dim
        accepted = self.accepted(results).values()
        known = [one for one in accepted if words is None or one[1] in words]
        rows = [row for row, _ in known]
        stacked = np.stack(rows) if rows else np.zeros((0, dimensions), np.float32)
        return Exemplars(stacked, tuple(label for _, label in known), fingerprint)
