"""Keeps the results shown in step with the limits in the panel."""

from __future__ import annotations

from functools import partial

from qtpy.QtCore import QObject

from ..results.results_widget import ResultsWidget
from ..session import Bindings, Session
from ..workers.worker import Worker
from .rethreshold import Rethresholded, rethreshold
from .vocabulary_widget import VocabularyWidget


class LimitsController(QObject):
    """Applies changed limits to the results shown, outside the GUI thread.

    Parameters
    ----------
    session : Session
        Has the limits.
    vocabulary : VocabularyWidget
    results : ResultsWidget
    parent : QObject
    """

    def __init__(
        self,
        session: Session,
        vocabulary: VocabularyWidget,
        results: ResultsWidget,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._vocabulary, self._results = session, vocabulary, results
        self._bindings = Bindings()
        self._rethresholding = Worker("latest", "Applying the limits", parent=self)
        self._rethresholding.done.connect(self._rethresholded)
        # Also during a run, whose results have the limits of its start.
        results.shown.connect(self.look)

    @property
    def busy(self) -> bool:
        """Whether the limits are being applied."""
        return self._rethresholding.busy

    def follow(self) -> None:
        """Follow the session."""
        events = self._session.events
        self._bindings.connect((events.settings, events.vocabulary), self.look)

    def look(self, _: object = None) -> None:
        """Apply the limits if the results shown have others."""
        results, limits = self._results.results, self._vocabulary.limits
        self._rethresholding.drop()
        if results is not None and not self._session.live and not limits.are_of(results):
            self._rethresholding.start(partial(rethreshold, results, limits))

    def stop(self) -> None:
        """Stop applying limits."""
        self._bindings.release()
        self._rethresholding.drop()

    def _rethresholded(self, answer: Rethresholded) -> None:
        if self._results.results is answer.before:
            self._results.renew(answer.after, answer.table)
