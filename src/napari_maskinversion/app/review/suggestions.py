"""What regions are suggested to be: by the words alone, or by what decisions have taught.

No Qt, no napari.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...language.labels.vocabulary import NONE_OF_THESE
from ...language.ranking.ranking import Ranking
from ...results.region_result import RegionResult
from ...results.results import Results
from ...review.decisions import Decision, Suggestion
from ...review.queue import certainty_of

SHOWN: Final = 5
_LEARNED: Final = " *"  # after a suggestion that decisions have changed


@dataclass(frozen=True, slots=True)
class RowOverlay:
    """What the table shows for a row instead of the run's values."""

    suggestion: str  # The accepted label, or the current suggestion
    status: str = ""  # The decision; empty keeps the table's status
    tip: str = ""  # Why the suggestion changed
    # Its confidence, similarity and margin where they are not those of the text's best label; NaN
    # for a label that has none
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """The suggestion without the mark of a learned one."""
        return self.suggestion.removesuffix(_LEARNED)


@dataclass(frozen=True, slots=True, eq=False)
class Suggestions:
    """Ranked labels of each row."""

    results: Results
    rankings: Sequence[Ranking | None]
    best: Sequence[str]  # The suggestion of each row; "" for none
    learned: bool = False  # From decisions
    changed: frozenset[int] = frozenset()  # Rows whose suggestion differs from the text's

    @classmethod
    def of_text(cls, results: Results) -> Suggestions:
        """Return those of a run."""
        rows = results.regions
        return cls(results, [row.ranking for row in rows], [row.suggestion for row in rows])

    @property
    def certainty(self) -> dict[str, Any]:
        """Their margins, entropies and labels for `ReviewQueue.suggest`."""
        if not self.learned:
            return certainty_of(self.results)
        ranks = [one for one in self.rankings if one is not None]
        return {
            "margins": [one.margin for one in ranks],
            "entropies": [one.entropy for one in ranks],
            "labels": self.best,
        }

    def top(self, row: int, count: int) -> tuple[Suggestion, ...]:
        """Return the best labels of a row."""
        ranking, by = self.rankings[row], "decisions" if self.learned else "text"
        if ranking is None:
            return ()
        rows = zip(ranking.labels, ranking.similarities, ranking.probabilities, strict=True)
        return tuple(
            Suggestion(
                label=label, rank=rank, similarity=float(similarity), by=by, score=float(chance)
            )
            for rank, (label, similarity, chance) in zip(range(1, count + 1), rows, strict=False)
        )

    def overlay(self, row: int, decision: Decision | None) -> RowOverlay | None:
        """Return what the table shows of a row; None for the run's values."""
        by_text, suggestion, tip = text_best(self.results.regions[row]), self.best[row], ""
        figures = self._figures(row, suggestion)
        if row in self.changed:
            tip = f"{suggestion}, by your decisions; {by_text or 'nothing'} by text alone"
            suggestion += _LEARNED
        if decision is None:
            return RowOverlay(suggestion, "", tip, figures) if tip or figures else None
        if decision.status == "accepted":
            label = decision.label
            tip = f"{label}, accepted; {by_text} by text"
            return RowOverlay(label, "accepted", tip, self._figures(row, label))
        return RowOverlay(suggestion, decision.status, tip or suggestion, figures)

    def _figures(self, row: int, label: str) -> dict[str, float]:
        """Return confidence, similarity and margin of a label; empty if the results hold them.

        The margin is below zero: the best label is nearer.
        """
        ranking, figures, none = self.results.regions[row].ranking, {}, float("nan")
        if ranking is not None and label not in (ranking.labels[0], NONE_OF_THESE):
            figures = dict.fromkeys(("probability", "similarity", "margin"), none)
            if label in ranking.labels:
                place = ranking.labels.index(label)
                similarity = float(ranking.similarities[place])
                margin = similarity - float(ranking.similarities[0])
                chance = float(ranking.probabilities[place])
                figures = {"probability": chance, "similarity": similarity, "margin": margin}
        if self.learned:
            scores = {one.label: one.score for one in self.top(row, SHOWN)}
            figures["probability"] = scores.get(label, none)
        return figures


def text_best(region: RegionResult) -> str:
    """Return the nearest label by text alone; empty without labels."""
    return "" if region.ranking is None else region.ranking.labels[0]
