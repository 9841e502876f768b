"""The order in which regions are looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from ..base.errors import ConfigError
from ..base.identity import RegionKey
from ..results.results import Results
from .decisions import STATUSES, Decision, Status, Step

FloatArray = npt.NDArray[np.floating]
Order = Literal["given", "margin", "entropy", "smallest", "largest", "label"]
ORDERS: Final[tuple[Order, ...]] = ("given", "margin", "entropy", "smallest", "largest", "label")


class ReviewQueue:
    """Rows of a table of regions, in an order, with those that are of no interest left out.

    The order stands until `sort` is called again, so that nothing moves under the user's hands.
    A row is a place in the arrays given here.

    Parameters
    ----------
    keys : sequence of RegionKey
    areas : ndarray, shape (N,)
        Pixels.
    margins, entropies : ndarray, shape (N,)
        Best score less the second best; entropy of the scores in nats. NaN comes last.
    labels : sequence of str
        The best suggestion; empty where there is none.
    """

    def __init__(
        self,
        keys: Sequence[RegionKey],
        *,
        areas: npt.ArrayLike,
        margins: npt.ArrayLike,
        entropies: npt.ArrayLike,
        labels: Sequence[str],
    ) -> None:
        self.keys = tuple(keys)
        self._rows = {key: row for row, key in enumerate(self.keys)}
        self._areas = self._checked(areas)
        self._status = np.zeros(len(self.keys), np.int8)
        self._own: dict[int, str] = {}
        self._only: tuple[frozenset[int], str | None] = (frozenset(), None)
        self.suggest(margins=margins, entropies=entropies, labels=labels)
        self.sort("given")

    @classmethod
    def from_results(cls, results: Results) -> ReviewQueue:
        """Take what the queue needs from results."""
        ranks = [region.ranking for region in results.regions]
        return cls(
            [RegionKey(region.id, region.position) for region in results.regions],
            areas=[region.area for region in results.regions],
            margins=[np.nan if rank is None else rank.margin for rank in ranks],
            entropies=[np.nan if rank is None else rank.entropy for rank in ranks],
            labels=[region.suggestion for region in results.regions],
        )

    def __len__(self) -> int:
        """Rows that are shown."""
        return len(self._shown_rows)

    @property
    def rows(self) -> npt.NDArray[np.intp]:
        """Rows that are shown, in order."""
        return self._shown_rows

    def row(self, region: RegionKey) -> int:
        """Give the row of a region."""
        return self._rows[region]

    def label(self, row: int) -> str:
        """Give the accepted label, or else the best suggestion."""
        return self._own.get(row, self._labels[row])

    def suggest(
        self, *, margins: npt.ArrayLike, entropies: npt.ArrayLike, labels: Sequence[str]
    ) -> None:
        """Take new suggestions (after learning from decisions); the order stays until `sort`."""
        self._margins, self._entropies = self._checked(margins), self._checked(entropies)
        self._labels = tuple(labels)
        self._name_all()
        self._choose()

    def sort(self, by: Order) -> None:
        """Order by least certain first ("margin", "entropy"), size, label, or as given.

        Within one label the least certain come first; equal rows keep the order given.

        Raises
        ------
        ConfigError
            If there is no such order.
        """
        rows = np.arange(len(self.keys))
        keys: dict[str, tuple[npt.NDArray[np.generic], ...]] = {
            "given": (rows,),
            "margin": (self._margins,),
            "entropy": (-self._entropies,),
            "smallest": (self._areas,),
            "largest": (-self._areas,),
            "label": (self._margins, np.unique(self._names, return_inverse=True)[1]),
        }
        if by not in keys:
            raise ConfigError(f"The queue is ordered by {', '.join(ORDERS)}; got {by!r}.")
        self._order = np.lexsort(keys[by])
        self._place = np.empty(len(rows), np.intp)
        self._place[self._order] = rows
        self._choose()

    def show(self, *, status: Iterable[Status] = (), label: str | None = None) -> None:
        """Show only rows of these states (all if none is given) and of this label."""
        self._only = (frozenset(STATUSES.index(one) for one in status), label)
        self._choose()

    def mark(self, changes: Step) -> None:
        """Take over what a decision, undo or redo changed; other images' regions are passed over.

        Rows that no longer belong are hidden; a row keeps its place for `next` and `previous`.
        """
        for change in changes:
            row = self._rows.get(change.region)
            if row is not None:
                self._set(row, change.after)
        self._choose()

    def load(self, decisions: Mapping[RegionKey, Decision]) -> None:
        """Take over all decisions there are."""
        self._status[:] = 0
        self._own.clear()
        self._name_all()
        for key, decision in decisions.items():
            row = self._rows.get(key)
            if row is not None:
                self._set(row, decision)
        self._choose()

    def next(self, row: int | None = None) -> int | None:
        """Give the shown row after this one, from the front after the last; None if none is shown.

        None as row gives the first.
        """
        if not len(self._shown_rows):
            return None
        at = -1 if row is None else self._place[row]
        place = int(np.searchsorted(self._places, at, side="right")) % len(self._places)
        return int(self._shown_rows[place])

    def previous(self, row: int | None = None) -> int | None:
        """Give the shown row before this one, from the end before the first."""
        if not len(self._shown_rows):
            return None
        at = len(self.keys) if row is None else self._place[row]
        return int(self._shown_rows[int(np.searchsorted(self._places, at, side="left")) - 1])

    def text(self, row: int) -> str:
        """Say where a row stands: "37 of 212"; of a hidden one, how many are left: "212 left"."""
        place = int(np.searchsorted(self._places, self._place[row], side="left"))
        if place < len(self._places) and self._shown_rows[place] == row:
            return f"{place + 1} of {len(self._places)}"
        return f"{len(self._places)} left"

    def counts(self) -> dict[Status, int]:
        """How many regions are in each state, shown or not."""
        found = np.bincount(self._status, minlength=len(STATUSES)).tolist()
        return dict(zip(STATUSES, found, strict=True))

    def _set(self, row: int, decision: Decision | None) -> None:
        self._status[row] = STATUSES.index("undecided" if decision is None else decision.status)
        if decision is not None and decision.label:
            self._own[row] = decision.label
        else:
            self._own.pop(row, None)
        self._names[row] = self.label(row)

    def _name_all(self) -> None:
        # Objects, so that a longer label fits in later.
        self._names = np.array([*self._labels, None], dtype=object)[:-1]
        for row, label in self._own.items():
            self._names[row] = label

    def _choose(self) -> None:
        if not hasattr(self, "_order"):
            return
        states, label = self._only
        shown = np.ones(len(self.keys), bool)
        if states:
            shown &= np.isin(self._status, list(states))
        if label is not None:
            shown &= self._names == label
        self._places = np.flatnonzero(shown[self._order])
        self._shown_rows = self._order[self._places]

    def _checked(self, values: npt.ArrayLike) -> npt.NDArray[np.float64]:
        array = np.asarray(values, np.float64)
        if array.shape != (len(self.keys),):
            raise ConfigError(
                f"The queue has {len(self.keys)} regions; got values of shape {array.shape}."
            )
        return array
