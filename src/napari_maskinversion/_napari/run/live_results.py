"""Hands the results of live mode to the session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject

from ..layers.layers import is_shapes
from ..run_requests.preparing import record_of
from ..session import ResultRecord, Session
from ..widgets.sections import debouncer
from .live_updater import LiveAnswer

if TYPE_CHECKING:
    from ...results.results import Results

# Milliseconds without an edit before the changed regions can be reviewed.
_REST: Final = 1000


class LiveResults(QObject):
    """Keeps the run of results while they follow one image and one regions layer."""

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._series: tuple[Any, ...] = ()  # what the last results belong to
        self._shown: ResultRecord | None = None
        self._rest = debouncer(self, _REST, self._settle)

    def show(self, answer: LiveAnswer) -> None:
        """Show new results, unless nothing has changed."""
        session, request, results = self._session, answer.request, answer.results
        if results is None:
            session.forget_results()
            return
        before = session.record
        series = (*session.layers, request.input.picture)
        ours = before is not None and before is self._shown and series == self._series
        if before is not None and ours:  # what they were made with is kept with the run
            then = before.snapshot
            ours = session.scope.chosen == then.scope.chosen
            ours = ours and session.settings.same_embeddings(then.settings)
        if ours and not answer.inverted and self._same(results):
            return
        snapshot = before.snapshot if ours and before is not None else session.snapshot()
        # A shape that was just drawn is what its user looks at, unless a review is open.
        free = ours and before is not None and is_shapes(session.regions) and not session.review
        row = _added(before.results, results) if free and before is not None else -1
        if before is not None and not ours:  # the region selected stays selected
            row = _row_of(before.results, session.row, results)
        self._series = series
        self._shown = ResultRecord(
            results=results,
            snapshot=snapshot,
            table=answer.table,
            only=request.input.only,
            finder=request.input.finder,
            source=record_of(request, snapshot),
            identities=answer.identities,
            masks=answer.planes,
            fingerprint=answer.pixels,
            live=True,
        )
        session.show(self._shown)
        if row >= 0:
            session.select(row, picked=False)
        self._rest.throttle()

    def forget(self) -> None:
        """Release layers and results; the review gets the last ones."""
        self._rest.flush()
        self._series, self._shown = (), None

    def _same(self, results: Results) -> bool:
        shown = None if self._shown is None else self._shown.results
        if shown is None or shown.info != results.info:
            return False
        pairs = zip(shown.regions, results.regions, strict=False)
        return len(shown) == len(results) and all(a is b for a, b in pairs)

    def _settle(self) -> None:
        shown = self._shown
        if shown is not None and self._session.record is shown:
            self._shown = shown.changed(settled=True)
            self._session.show(self._shown)


def _row_of(before: Results, row: int, after: Results) -> int:
    """Return the row of a region in other results; -1 if it is in none."""
    keys = [[(one.id, one.position) for one in results.regions] for results in (before, after)]
    key = keys[0][row] if 0 <= row < len(before) else None
    return keys[1].index(key) if key in keys[1] else -1


def _added(before: Results, after: Results) -> int:
    """Return the row of the one region that was drawn since; -1 if there is none, or several."""
    known = {(region.id, region.position) for region in before.regions}
    rows = [row for row, one in enumerate(after.regions) if (one.id, one.position) not in known]
    return rows[0] if len(rows) == 1 else -1
