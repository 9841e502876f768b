"""Runs jobs in napari's worker threads, one at a time, and passes on what the current one says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from napari.qt.threading import thread_worker
from qtpy.QtCore import QObject, QTimer, Signal

from ..workers.fetch_task import fetch_model
from ..workers.model_store import ModelStore
from ..workers.notify import inform, report_errors
from ..workers.updates import Update
from ..workers.worker_errors import Failed
from .jobs import Job

if TYPE_CHECKING:
    from ...base.identity import RegionIdentity
    from ...results.export.bundle import Masks
    from ..layers.image_fingerprint import ImageFingerprint
    from .request import Seed


class _Run(QObject):
    """One run in one worker. Its methods are called on the main thread, whichever Qt is in use."""

    def __init__(self, runner: Runner, job_id: int, request: Any) -> None:
        super().__init__(runner)
        self.job_id = job_id
        self._runner = runner
        self._job = runner.make(request, runner.store)
        self._told = ""
        # Errors are told by `report`, not raised on the main thread, where scripts would die of
        # it. No progress in napari's own bar: while one is open the status bar plays an animation,
        # and every picture of it composes the whole window anew.
        self.worker = thread_worker(self._job.work, ignore_errors=True)()
        self._job.stop_requested = self._stop_requested
        self.worker.yielded.connect(self.on_yield)
        self.worker.returned.connect(self.on_return)
        report_errors(self.worker)
        self.worker.finished.connect(self.on_finish)

    def on_yield(self, update: Update) -> None:
        if self._is_current() and not self.worker.abort_requested:
            began = time.monotonic()
            if update.note != self._told:
                # Also for those who do not look at the panel: the regions to come are affected.
                self._told = update.note
                inform(update.note)
            self._runner.updated.emit(update)
            # Comes back when everything that the update changed has been drawn.
            QTimer.singleShot(0, lambda: self._note_drawn(began))

    def _note_drawn(self, began: float) -> None:
        # Decays, since an update that changes nothing visible costs nothing.
        earlier = 0.7 * self._job.drawing_seconds
        self._job.drawing_seconds = max(time.monotonic() - began, earlier)

    def on_return(self, outcome: Any) -> None:
        if self._is_current() and isinstance(outcome, Failed):
            self._runner.failed.emit(outcome.message)

    def on_finish(self) -> None:
        if self._is_current() and self._job.finished is not None:
            self._runner.identities = getattr(self._job, "identities", ())
            self._runner.masks = getattr(self._job, "masks", {})
            self._runner.pixels = getattr(self._job, "pixels", None)
            self._runner.seed = getattr(self._job, "seed", None)
            self._runner.finished.emit(self._job.finished)
        # A worker that was told to quit leaves its generator hanging, and the memory it holds.
        self._job.release()
        self._runner.forget(self)
        self.deleteLater()

    def _stop_requested(self) -> bool:
        return bool(self.worker.abort_requested)  # in the worker's thread; a plain attribute

    def _is_current(self) -> bool:
        return self._runner.job_id == self.job_id


class Runner(QObject):
    """One run at a time; what an older one still says is dropped.

    Parameters
    ----------
    parent : QObject, optional
    make : callable
        Makes the job of a request: `Job`, or another with the same methods.
    store : ModelStore, optional
        Shared with other runners.

    Signals
    -------
    updated : Update
    finished : Results
        Of all regions that were finished, also where the run was cancelled or failed.
    failed : str
        A reason the user can do something about. What nobody foresaw goes to napari's own error
        notification, with its traceback.
    ended
        The run is over, whatever way.
    """

    updated = Signal(object)
    finished = Signal(object)
    failed = Signal(str)
    ended = Signal()

    def __init__(
        self,
        parent: QObject | None = None,
        make: Callable[[Any, ModelStore], Any] = Job,
        store: ModelStore | None = None,
    ) -> None:
        super().__init__(parent)
        self.make, self.store = make, store or ModelStore()
        self.job_id = 0
        # Regions of the last run that finished any, as they were when it began.
        self.identities: tuple[RegionIdentity, ...] = ()
        self.masks: Masks = {}
        self.pixels: ImageFingerprint | None = None
        self.seed: Seed | None = None  # what live mode may begin with
        self._run: _Run | None = None

    @property
    def running(self) -> bool:
        """Whether the current job is under way."""
        return self._run is not None

    def start(self, request: Any) -> int:
        """Start a run and return its id; an older one is told to stop and not listened to."""
        self.cancel()
        self.job_id += 1
        self._run = _Run(self, self.job_id, request)
        self._run.worker.start()
        return self.job_id

    def cancel(self) -> None:
        """Tell the current run to stop at its next step."""
        if self._run is not None:
            self._run.worker.quit()

    def abandon(self) -> None:
        """Stop the current run and drop whatever it still says."""
        self.cancel()
        self.job_id += 1
        self._run = self.seed = None

    def forget(self, run: _Run) -> None:
        """Note that a run's worker is done."""
        if self._run is run:
            self._run = None
            self.ended.emit()


class Fetcher(QObject):
    """Downloads one model at a time.

    Parameters
    ----------
    parent : QObject, optional
    fetch : callable
        Fetches by name: `fetch_model`, or another that is called in the same way.

    Signals
    -------
    progressed : float, float
        Bytes on disk, bytes in all (floats: they do not fit Qt's int).
    fetched, failed : str
    ended
    """

    progressed = Signal(float, float)
    fetched = Signal(str)
    failed = Signal(str)
    ended = Signal()

    def __init__(
        self, parent: QObject | None = None, fetch: Callable[..., Any] = fetch_model
    ) -> None:
        super().__init__(parent)
        self._fetch = fetch
        self._worker: Any = None

    @property
    def running(self) -> bool:
        """Whether a download is under way."""
        return self._worker is not None

    def start(self, name: str) -> None:
        """Fetch a model unless a download is running."""
        if self._worker is not None:
            return
        worker: Any = None
        worker = thread_worker(self._fetch, ignore_errors=True)(
            name,
            # Emitted in the worker's thread, hence queued: received on the main thread.
            on_progress=lambda done, total: self.progressed.emit(float(done), float(total)),
            cancelled=lambda: bool(worker.abort_requested),
        )
        self._worker = worker
        worker.returned.connect(self._returned)
        report_errors(worker)
        worker.finished.connect(self._finished)
        worker.start()

    def cancel(self) -> None:
        """Stop the download; what has arrived is kept for the next try."""
        if self._worker is not None:
            self._worker.quit()

    def _returned(self, outcome: Any) -> None:
        if isinstance(outcome, Failed):
            self.failed.emit(outcome.message)
        elif outcome is not None:
            self.fetched.emit(outcome)

    def _finished(self) -> None:
        self._worker = None
        self.ended.emit()
