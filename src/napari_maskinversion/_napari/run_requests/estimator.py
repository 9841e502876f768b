"""Estimates size and time of a run, outside the GUI thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from qtpy.QtCore import QObject, Signal

from ...app.requests.estimating import Work
from ...app.session import Session, job_kinds
from ...base.errors import MaskInversionError
from ..widgets.sections import debouncer

QUIET: Final = 400  # milliseconds without a change


class Estimator(QObject):
    """Estimates a run shortly after the last change, outside the GUI thread."""

    due = Signal()  # nothing has changed for a while: whoever follows calls `estimate`
    ready = Signal(str)  # the estimate, or why there is none

    def __init__(self, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._waiting = False
        self._pause = debouncer(self, QUIET, self.due.emit)
        self._job = session.jobs.of(job_kinds.ESTIMATE)

    def later(self, _: object = None) -> None:
        """Estimate again when nothing has changed for a while."""
        self._job.drop()
        self._waiting = True
        self._pause.throttle()

    def stop(self) -> None:
        """Tell nothing more until the next change."""
        self._job.drop()
        self._waiting = False
        self._pause.cancel()

    @property
    def busy(self) -> bool:
        """Whether an estimate is waiting or running."""
        return self._waiting or self._job.busy

    def estimate(self, prepare: Callable[[], Work | None]) -> None:
        """Do the work that is prepared now; None where there is nothing to say."""
        self._waiting = False
        try:
            work = prepare()
        except MaskInversionError as error:
            self.ready.emit(str(error))
            return
        if work is None:
            self.ready.emit("")
        else:
            self._job.start(work, self.ready.emit, failed=self.ready.emit)
