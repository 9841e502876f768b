"""Learning from decisions: accepted regions vote for the labels of other regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..language.ranking.ranking import entropy
from ..results.results import Results
from .decisions import Decisions, Suggestion

if TYPE_CHECKING:
    from torch import Tensor

FloatArray = npt.NDArray[np.float32]

# Chosen on validation images, see docs/lab/learning.md.
WEIGHT: Final = 0.5
NEAREST: Final = 3
SHARPNESS: Final = 5.0
SMOOTHING: Final = 0.1
_CHUNK: Final = 32_000_000  # similarities held at once


@dataclass(frozen=True, slots=True)
class Exemplars:
    """Labelled regions of one or more images.

    Shapes: embeddings (M, e), float32.
    """

    embeddings: FloatArray  # L2 norm 1
    labels: tuple[str, ...]  # One label per embedding
    fingerprint: str  # Of the model that computed the embeddings; others cannot be compared

    def __len__(self) -> int:
        """Return the number of exemplars."""
        return len(self.labels)

    @classmethod
    def accepted(cls, results: Results, decisions: Decisions) -> Exemplars:
        """Create exemplars from the accepted regions of an image."""
        labels = decisions.accepted()
        rows, names = [], []
        for region in results.regions:
            label = labels.get(region.key)
            if label is not None:
                rows.append(region.embedding)
                names.append(label)
        embeddings = np.stack(rows) if rows else np.zeros((0, results.info.embed_dim), np.float32)
        return cls(embeddings, tuple(names), results.info.space)


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of every label for every region, from text and exemplars."""

    labels: tuple[str, ...]  # Labels of the vocabulary, then those that only exemplars have
    values: FloatArray  # (N, labels), float32. 0..1; rows sum to 1.
    # (N, vocabulary), float32. Cosine of region and text, for labels of the vocabulary.
    similarities: FloatArray
    by: str  # Source: "text", "exemplars" or "text and exemplars"

    @property
    def best(self) -> list[str]:
        """Best label of each region."""
        return [self.labels[place] for place in self.values.argmax(1)]

    @property
    def margins(self) -> FloatArray:
        """Best score minus the second best, (N,); NaN for a single label."""
        if self.values.shape[1] < 2:
            return np.full(len(self.values), np.nan, np.float32)
        best_two = np.partition(self.values, -2, axis=1)[:, -2:]
        return np.asarray(best_two[:, 1] - best_two[:, 0])

    @property
    def entropies(self) -> FloatArray:
        """Entropy of the scores in nats, (N,)."""
        return np.asarray(entropy(self.values), np.float32)

    def top(self, row: int, count: int = 5) -> tuple[Suggestion, ...]:
        """Return the best labels of one region, best first."""
        order = np.argsort(-self.values[row], kind="stable")[:count].tolist()
        vocabulary = self.similarities.shape[1]
        return tuple(
            Suggestion(
                label=self.labels[place],
                rank=rank,
                similarity=(
                    float(self.similarities[row, place]) if place < vocabulary else float("nan")
                ),
                by=self.by,
                score=float(self.values[row, place]),
            )
            for rank, place in enumerate(order, 1)
        )


class Learner:
    """Re-ranks the labels of regions by accepted regions.

    Shapes: embeddings (N, e), float32; similarities, probabilities (N, L), float32.
    """

    def __init__(
        self,
        embeddings: FloatArray,
        similarities: FloatArray,
        probabilities: FloatArray,
        labels: Sequence[str],
        fingerprint: str,
    ) -> None:
        self.labels = tuple(labels)
        self.fingerprint = fingerprint
        self._embeddings = np.ascontiguousarray(embeddings, np.float32)
        self._similarities = similarities
        self._probabilities = np.ascontiguousarray(probabilities, np.float32)
        self._sum = self._embeddings.sum(0, dtype=np.float64)

    @classmethod
    def from_results(cls, results: Results) -> Learner:
        """Create a learner from the embeddings and rankings of a run."""
        vocabulary = results.info.vocabulary
        if vocabulary is None:
            raise InputError("These results have no labels to re-rank; give a vocabulary.")
        places = {label: place for place, label in enumerate(vocabulary.labels)}
        similarities = np.zeros((len(results), len(places)), np.float32)
        probabilities = np.zeros_like(similarities)
        for row, region in enumerate(results.regions):
            if region.ranking is None:
                raise InputError(f"Region {region.id} has no ranking; run it with a vocabulary.")
            order = [places[label] for label in region.ranking.labels]
            similarities[row, order] = region.ranking.similarities
            probabilities[row, order] = region.ranking.probabilities
        return cls(
            results.embeddings,
            similarities,
            probabilities,
            vocabulary.labels,
            results.info.space,
        )

    def scores(
        self, exemplars: Exemplars, *, weight: float = WEIGHT, nearest: int = NEAREST
    ) -> Scores:
        """Score every label for every region: ``(1 - weight) * text + weight * exemplars``.

        Text: the softmax of the similarities times the model's logit scale, as shown without
        exemplars. Exemplars: a label's vote is the mean of ``exp(-sharpness * (1 - cosine))`` over
        its nearest exemplars (Tip-Adapter's cache weights, arXiv:2207.09519), with the cosine of
        embeddings minus their overall mean. Votes are divided by their sum plus a small constant,
        and the rest to 1 is shared equally by all labels: if all exemplars are far away, the text
        decides the order.
        """
        check_model(exemplars.fingerprint, self.fingerprint)
        if not len(exemplars) or weight == 0:
            return Scores(self.labels, self._probabilities, self._similarities, "text")
        labels = tuple(dict.fromkeys((*self.labels, *exemplars.labels)))
        values = self._votes(exemplars, labels, nearest)
        values *= weight
        values[:, : len(self.labels)] += (1 - weight) * self._probabilities
        by = "exemplars" if weight == 1 else "text and exemplars"
        return Scores(labels, values, self._similarities, by)

    def _votes(self, exemplars: Exemplars, labels: tuple[str, ...], nearest: int) -> FloatArray:
        import torch

        from ..engine.compute.compute_lock import end_threads

        own, others = self._embeddings, exemplars.embeddings
        total = self._sum + others.sum(0, dtype=np.float64)
        centre = torch.from_numpy((total / (len(own) + len(others))).astype(np.float32))
        index = {label: number for number, label in enumerate(labels)}
        label_of = np.array([index[label] for label in exemplars.labels])
        # Sorted by label, so that the cosines of a label are contiguous.
        by_label = np.argsort(label_of, kind="stable")
        known = _unit(torch.from_numpy(np.ascontiguousarray(others[by_label], np.float32)) - centre)
        counts = np.bincount(label_of, minlength=len(labels)).tolist()
        votes = torch.zeros(len(labels), len(own))
        rows = max(1, _CHUNK // len(known))
        for start in range(0, len(own), rows):
            chunk = _unit(torch.from_numpy(own[start : start + rows]) - centre)
            # Not NumPy's product: its idle threads would slow the next inversion.
            pieces = torch.split(known @ chunk.T, counts)
            for number, cosines in enumerate(pieces):
                if counts[number] > nearest:
                    cosines = cosines.topk(nearest, dim=0, sorted=False).values
                if counts[number]:
                    kernel = (SHARPNESS * (cosines - 1)).exp_()
                    votes[number, start : start + rows] = kernel.mean(0)
        votes = votes.T
        total_votes = votes.sum(1, keepdim=True) + SMOOTHING
        shares: Any = (votes + SMOOTHING / len(labels)) / total_votes
        end_threads()
        return np.asarray(shares.numpy(), np.float32)


def check_model(exemplars: str, run: str) -> None:
    """Refuse embeddings of another model."""
    if exemplars != run:
        raise InputError(
            f"Another model or method computed these exemplars (fingerprint {exemplars}; this "
            f"run has {run}), so they cannot be compared. Run their image again with this model "
            "and method."
        )


def _unit(rows: Tensor) -> Tensor:
    from torch.nn.functional import normalize

    return normalize(rows, dim=1)
