"""Keeps the results shown in step with the limits in the panel."""

from __future__ import annotations

from functools import partial

from qtpy.QtCore import QObject

from ..session import Bindings, Session
from ..workers.worker import Worker
from .rethreshold import Limits, Rethresholded, rethreshold


class LimitsController(QObject):
    """Applies changed limits to the results shown, outside the GUI thread.

    Parameters
    ----------
    session : Session
    parent : QObject
    """

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session, self._bindings = session, Bindings()
        self._rethresholding = Worker("latest", "Applying the limits", parent=self)
        self._rethresholding.done.connect(self._rethresholded)

    def follow(self) -> None:
        """Follow the session."""
        names = ("settings", "vocabulary", "record", "live")
        events = self._session.events
        # Also during a run, whose results have the limits of its start.
        self._bindings.connect([events[name] for name in names], self._look)
        self._look()

    @property
    def busy(self) -> bool:
        """Whether the limits are being applied."""
        return self._rethresholding.busy

    def _look(self, _: object = None) -> None:
        """Apply the limits if the results shown have others; live mode does it itself."""
        session = self._session
        results, words = session.results, session.vocabulary
        self._rethresholding.drop()
        if results is None or session.live:
            return
        then = results.info.vocabulary
        words = words if words is not None else then
        limits = Limits(words.threshold if words is not None else None, session.settings.unsure)
        if not limits.are_of(results):
            self._rethresholding.start(partial(rethreshold, results, limits))

    def stop(self) -> None:
        """Stop applying limits."""
        self._bindings.release()
        self._rethresholding.drop()

    def _rethresholded(self, answer: Rethresholded) -> None:
        record = self._session.record
        if record is not None and self._session.results is answer.before:
            self._session.show(record.changed(results=answer.after, table=answer.table))
