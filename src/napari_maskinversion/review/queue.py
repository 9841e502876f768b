"""The order in which regions are reviewed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.identity import RegionKey
from ..results.orders import (
    Order,
    Rows,
    alphabetical_ranks,
    by_word,
    different_first,
    largest_first,
    smallest_first,
)
from ..results.results import Results
from .decisions import STATUSES, Decision, Status, Step

FloatArray = npt.NDArray[np.floating]


class ReviewQueue:
    """Rows of a table of regions, sorted and filtered.

    The order stays until the next `sort`, so that rows do not move while the user works. A row is
    an index into the arrays below.

    Shapes: areas, margins, entropies (N,); embeddings (N, e), unit norm.
    """

    def __init__(
        self,
        keys: Sequence[RegionKey],
        *,
        areas: npt.ArrayLike,
        margins: npt.ArrayLike,
        entropies: npt.ArrayLike,
        labels: Sequence[str],
        embeddings: FloatArray,
    ) -> None:
        self.keys = tuple(keys)
        self._embeddings = embeddings
        self._rows = {key: row for row, key in enumerate(self.keys)}
        self._areas = np.asarray(areas, np.float64)
        self._status = np.zeros(len(self.keys), np.int8)
        self._accepted: dict[int, str] = {}
        self._filter: tuple[frozenset[int], str | None] = (frozenset(), None)
        self._only: npt.NDArray[np.intp] | None = None
        self._order = self._place = np.arange(len(self.keys))  # as `sort` does with "given"
        self.suggest(margins=margins, entropies=entropies, labels=labels)

    @classmethod
    def from_results(cls, results: Results) -> ReviewQueue:
        """Create the queue of a run."""
        keys = [region.key for region in results.regions]
        return cls(
            keys,
            areas=[region.area for region in results.regions],
            embeddings=results.embeddings,
            **certainty_of(results),
        )

    def __len__(self) -> int:
        """Return the number of shown rows."""
        return len(self._shown_rows)

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """Shown rows, in order."""
        return self._shown_rows

    def row(self, region: RegionKey) -> int:
        """Return the row of a region."""
        return self._rows[region]

    def label(self, row: int) -> str:
        """Return the accepted label, or else the best suggestion."""
        return self._accepted.get(row, self._labels[row])

    def suggest(
        self, *, margins: npt.ArrayLike, entropies: npt.ArrayLike, labels: Sequence[str]
    ) -> None:
        """Set new suggestions; the order stays until `sort`."""
        self._margins = np.asarray(margins, np.float64)
        self._entropies = np.asarray(entropies, np.float64)
        self._labels = tuple(labels)
        self._reset_names()
        self._filter_rows()

    def sort(self, by: Order) -> None:
        """Sort by uncertainty ("margin", "entropy"), size or label; "given": by row.

        The least certain rows come first, also within a label. Ties are sorted by row. "different":
        first what looks least like the decided regions and the rows before.
        """
        self._order = self._ordered(by)
        self._place = np.empty(len(self.keys), np.intp)
        self._place[self._order] = np.arange(len(self.keys))
        self._filter_rows()

    def _ordered(self, by: Order) -> Rows:
        match by:
            case "different":
                return different_first(self._embeddings, self._status > 0, self._margins)
            case "margin":
                return smallest_first(self._margins)
            case "entropy":
                return largest_first(self._entropies)
            case "smallest":
                return smallest_first(self._areas)
            case "largest":
                return largest_first(self._areas)
            case "label":
                return by_word(alphabetical_ranks(self._names), self._margins)
            case "given":
                return np.arange(len(self.keys))

    def show(
        self,
        *,
        status: Iterable[Status] = (),
        label: str | None = None,
        rows: Iterable[int] | None = None,
    ) -> None:
        """Show only rows with these states (default: all), this label (any), of these (all)."""
        self._filter = (frozenset(map(STATUSES.index, status)), label)
        if rows is None:
            self._only = None
        else:
            self._only = np.array(list(rows), np.intp)
        self._filter_rows()

    def mark(self, changes: Step) -> None:
        """Apply the changes of a decision, undo or redo; other images' regions are skipped.

        Hidden rows keep their place for `next` and `previous`.
        """
        for change in changes:
            row = self._rows.get(change.region)
            if row is not None:
                self._set(row, change.after)
        self._filter_rows()

    def load(self, decisions: Mapping[RegionKey, Decision]) -> None:
        """Replace all states."""
        self._status[:] = 0
        self._accepted.clear()
        self._reset_names()
        for key, decision in decisions.items():
            row = self._rows.get(key)
            if row is not None:
                self._set(row, decision)
        self._filter_rows()

    def next(self, row: int | None = None) -> int | None:
        """Return the next shown row, wrapping around; None if no row is shown.

        Without a row: the first shown row.
        """
        if not len(self._shown_rows):
            return None
        start = -1 if row is None else self._place[row]
        place = int(np.searchsorted(self._places, start, side="right")) % len(self._places)
        return int(self._shown_rows[place])

    def previous(self, row: int | None = None) -> int | None:
        """Return the previous shown row, wrapping around; without a row, the last one."""
        if not len(self._shown_rows):
            return None
        start = len(self.keys) if row is None else self._place[row]
        return int(self._shown_rows[int(np.searchsorted(self._places, start, side="left")) - 1])

    def text(self, row: int) -> str:
        """Return "37 of 212" for a shown row, "212 left" for a hidden one."""
        place = int(np.searchsorted(self._places, self._place[row], side="left"))
        if place < len(self._places) and self._shown_rows[place] == row:
            return f"{place + 1} of {len(self._places)}"
        return f"{len(self._places)} left"

    def counts(self) -> dict[Status, int]:
        """Count regions by state, shown and hidden."""
        counts = np.bincount(self._status, minlength=len(STATUSES)).tolist()
        return dict(zip(STATUSES, counts, strict=True))

    def _set(self, row: int, decision: Decision | None) -> None:
        self._status[row] = STATUSES.index("undecided" if decision is None else decision.status)
        if decision is not None and decision.label:
            self._accepted[row] = decision.label
        else:
            self._accepted.pop(row, None)
        self._names[row] = self.label(row)

    def _reset_names(self) -> None:
        # Object dtype, so that a longer label fits later.
        self._names = np.array([*self._labels, None], dtype=object)[:-1]
        for row, label in self._accepted.items():
            self._names[row] = label

    def _filter_rows(self) -> None:
        states, label = self._filter
        shown = np.ones(len(self.keys), bool)
        if self._only is not None:
            shown[:] = False
            shown[self._only] = True
        if states:
            shown &= np.isin(self._status, list(states))
        if label is not None:
            shown &= self._names == label
        self._places = np.flatnonzero(shown[self._order])
        self._shown_rows = self._order[self._places]


def certainty_of(results: Results) -> dict[str, Any]:
    """Return ``margins``, ``entropies`` and ``labels`` of a run for `ReviewQueue.suggest`.

    A word that the model was not taught is the least certain, whatever its figures.
    """
    rows = results.regions
    unknown = [row.ranking is not None and row.ranking.word_unknown for row in rows]
    margins = [row.margin for row in rows]
    entropies = [row.entropy for row in rows]
    labels = [row.suggestion for row in rows]
    return {
        "margins": np.where(unknown, -np.inf, margins),
        "entropies": np.where(unknown, np.inf, entropies),
        "labels": labels,
    }
