"""Rank labels by how well they fit a region, and regions by how well an expression fits them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..labels.vocabulary import NONE_OF_THESE
from .query import embed_query

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]


class LabelFigures(NamedTuple):
    """How well one label fits a region."""

    similarity: float
    probability: float
    margin: float  # To the best other label: below 0 for a label that is not the best


@dataclass(frozen=True, slots=True)
class Ranking:
    """All labels of a vocabulary for one region, best first."""

    labels: tuple[str, ...]
    similarities: FloatArray  # (labels,), float32. Cosine of region and label, or its best synonym.
    # (labels,), float32. Softmax of the similarities times the model's logit scale.
    probabilities: FloatArray
    threshold: float | None = None  # Least similarity of a suggestion
    unknown: Collection[str] = ()  # Labels that the model was not taught, where that can be told
    # Whether a classifier finds "none of these" likelier than the best label
    is_none: bool = False
    # The ranking without the decisions of a review; None: decisions have no part in this one
    before: Ranking | None = None

    @property
    def margin(self) -> float:
        """Best similarity minus the second best; NaN for a single label."""
        if len(self.labels) < 2:
            return float("nan")
        return float(self.similarities[0] - self.similarities[1])

    @property
    def below_threshold(self) -> bool:
        """Whether no label is similar enough."""
        if self.before is not None:  # what was learned is no cosine: the threshold is for those
            return self.before.below_threshold and self.suggestion == NONE_OF_THESE
        return self.threshold is not None and float(self.similarities[0]) < self.threshold

    @property
    def word_unknown(self) -> bool:
        """Whether the model was not taught the best label, so that its similarity means nothing."""
        return self.labels[0] in self.unknown

    @property
    def suggestion(self) -> str:
        """The best label, or "none of these".

        Where decisions find the same label best, the suggestion without decisions stays, be it
        "none of these".
        """
        if self.before is None:
            is_none = self.is_none or self.below_threshold
            return NONE_OF_THESE if is_none else self.labels[0]
        best = NONE_OF_THESE if self.is_none else self.labels[0]
        return self.before.suggestion if best == self.before.labels[0] else best

    @property
    def changed_from(self) -> str:
        """The suggestion without decisions, if decisions have changed it; else ""."""
        if self.before is None or self.suggestion == self.before.suggestion:
            return ""
        return self.before.suggestion

    def with_threshold(self, threshold: float | None) -> Ranking:
        """Return the ranking with another threshold, which is for the ranking without decisions."""
        if self.before is not None:
            return replace(self, before=self.before.with_threshold(threshold))
        return replace(self, threshold=threshold)

    def figures_of(self, label: str) -> LabelFigures:
        """Return similarity, probability and margin of any label; NaN for one not ranked."""
        if label not in self.labels:
            return LabelFigures(math.nan, math.nan, math.nan)
        place = self.labels.index(label)
        if place == 0:
            margin = self.margin
        else:
            margin = float(self.similarities[place]) - float(self.similarities[0])
        return LabelFigures(
            float(self.similarities[place]), float(self.probabilities[place]), margin
        )

    @property
    def entropy(self) -> float:
        """Entropy of the probabilities in nats: from 0 for one certain label to log(labels)."""
        return max(0.0, float(entropy(self.probabilities.astype(np.float64))))


def entropy(probabilities: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Compute the entropy in nats of probabilities (..., labels), over the last axis."""
    from scipy.special import entr

    return np.asarray(entr(probabilities).sum(-1))


def cosines(
    unit_embeddings: FloatArray, text: FloatArray, owners: Sequence[int] | None = None
) -> FloatArray:
    """Return the cosines (regions, labels) of regions and labels: of synonyms, the best.

    ``owners`` is the label of each text, in order; without it each is a label. The caller ends
    torch's threads. Shapes: unit_embeddings (regions, e); text (words, e).
    """
    import torch

    # Torch multiplies: NumPy's threads would keep spinning into the next inversion.
    product = torch.from_numpy(np.ascontiguousarray(unit_embeddings)) @ torch.from_numpy(text).T
    similarities: FloatArray = product.float().numpy()
    if owners is None:
        return similarities
    return np.maximum.reduceat(similarities, np.unique(owners, return_index=True)[1], axis=1)


def rank(
    unit_embeddings: FloatArray,
    text: FloatArray,
    labels: Sequence[str],
    logit_scale: float,
    *,
    owners: Sequence[int] | None = None,
    threshold: float | None = None,
    unknown: Collection[str] = (),
) -> list[Ranking]:
    """Rank labels for regions.

    Shapes: unit_embeddings (regions, e); text (words, e).
    """
    from scipy.special import softmax

    from ...engine.compute.compute_lock import end_threads

    similarities = cosines(unit_embeddings, text, owners)
    end_threads()
    logits = similarities.astype(np.float64) * logit_scale
    probabilities = softmax(logits, axis=1).astype(np.float32)
    orders = np.argsort(-similarities, axis=1, kind="stable")
    names = np.array(labels, dtype=object)
    rankings = []
    for order, row, chances in zip(orders, similarities, probabilities, strict=True):
        rankings.append(
            Ranking(tuple(names[order].tolist()), row[order], chances[order], threshold, unknown)
        )
    return rankings


# -- regions by an expression ("the dog on the left") ---------------------------------------------

# Best in the paper for expressions that mention the surroundings of a region (RefCOCO: 41.7 % at
# alpha 0, 56.2 % at 5, 20.5 % at 20); see `InversionConfig.alpha`.
EXPRESSION_ALPHA: Final = 5.0


@dataclass(frozen=True, slots=True)
class RegionMatch:
    """A region and how well an expression fits it."""

    row: int  # Index of the region
    similarity: float  # Cosine of region and expression, -1..1
    margin: float  # Similarity minus that of the next region; NaN for the last one


def find(
    model: Backbone,
    unit_embeddings: FloatArray,
    expression: str,
    templates: Sequence[str] = ("{}",),
) -> list[RegionMatch]:
    """Rank regions by how well an expression fits them, best first.

    Shapes: unit_embeddings (regions, e), float32.
    """
    words = embed_query(model, expression, templates)
    import torch

    # Torch multiplies: NumPy's threads would keep spinning into the next inversion.
    regions = torch.from_numpy(np.ascontiguousarray(unit_embeddings, np.float32))
    similarities = (regions @ torch.from_numpy(words)).tolist()
    order = sorted(range(len(similarities)), key=lambda row: -similarities[row])
    values = [similarities[row] for row in order]
    margins = [value - next_value for value, next_value in pairwise(values)]
    matches = []
    for row, value, margin in zip(order, values, [*margins, math.nan], strict=False):
        matches.append(RegionMatch(row, value, margin))
    return matches
