"""Runs: starts them, shows their progress and hands their results to the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject

from ...results.agreement import agreement_of
from ..layers.results_on_canvas import ResultsOnCanvas
from ..run_requests.preparing import make_request, record_of
from ..run_requests.run_task import FinishedRun, RunTask
from ..session import Phase, ResultRecord, RunState, Session, Topic
from ..workers.model_store import ModelStore
from ..workers.notify import inform, refuse, refusing
from ..workers.worker import Worker

if TYPE_CHECKING:
    from ..run_requests.run_task import Request
    from ..workers.driver import Update


class RunController(Topic, QObject):
    """One run at a time."""

    def __init__(
        self,
        viewer: Any,
        session: Session,
        canvas: ResultsOnCanvas,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._canvas, self._store = viewer, session, canvas, store
        self._request: Request | None = None
        self._source: Mapping[str, Any] = {}  # layers have the names of the run's beginning
        self._forming = False  # heatmaps are shown while they form
        self._noted: set[str] = set()  # models whose flags were explained
        kept = "The regions finished before are kept."
        self.worker = Worker("single", "The run", kept=kept, parent=self)
        self.worker.progressed.connect(self._progressed)
        self.worker.done.connect(self._done)
        self.worker.failed.connect(refuse)
        self.worker.ended.connect(self._ended)

    def bind(self) -> None:
        """Follow the session."""
        self.after("row", self._row_selected)
        self.answer("cancel run", lambda _: self.cancel())

    def stop(self) -> None:
        """Abandon a run, and follow the session no more."""
        super().stop()
        if self.worker.busy:  # the run may be that of another panel
            self.worker.drop()
            self._ended()

    def start(self, *, keep: bool = False) -> None:
        """Start a run, or show why it cannot start.

        With ``keep`` regions that have not changed since the results shown keep their embeddings.
        """
        if self.worker.busy or self._session.run.running:
            return
        with refusing():
            request = self.request(keep=keep)
            # The results shown stay until the first new ones: a refused run loses nothing.
            self._request, self._forming = request, request.forming
            self._source = record_of(request, self._session.begin_run())
            self.worker.start(RunTask(request, self._store).work)

    def request(self, *, keep: bool = False) -> Request:
        """Return what a run would work on now."""
        return make_request(self._viewer, self._session, captioned=True, keep=keep)

    def cancel(self) -> None:
        """Stop at the next step; finished regions stay."""
        self.worker.cancel()
        if self.worker.busy:
            self._session.run = replace(self._session.run, phase="stopping")

    def _progressed(self, update: Update) -> None:
        session, snapshot = self._session, self._session.run.snapshot
        if update.results is not None:
            self._show(results=update.results, table=update.table)
        session.run = replace(
            session.run,
            text=update.text,
            fraction=update.fraction or 0.0,
            done=update.done,
            total=update.total,
            note=update.note,
        )
        if update.forming is None or not self._forming or self._request is None:
            return
        if snapshot is not None and snapshot.image is session.image:
            self._canvas.show_forming(update.forming, snapshot.image, self._request.input.finder)

    def _done(self, finished: FinishedRun) -> None:
        self._show(
            results=finished.results,
            total=finished.total,
            identities=finished.identities,
            masks=finished.masks,
            fingerprint=finished.pixels,
            settled=True,
        )
        done, total = len(finished.results), finished.total
        stopped: Phase = "cancelled" if self._session.run.phase == "stopping" else "failed"
        self._end("done" if done >= total else stopped, done, total)
        agreement = agreement_of(finished.results)
        if agreement is not None:
            inform(agreement.text)
        info = finished.results.info
        if info.flags_note and info.model not in self._noted:
            self._noted.add(info.model)
            inform(info.flags_note)

    def _show(self, **values: Any) -> None:
        """Show results of this run: the first ones, or more of them."""
        session, snapshot = self._session, self._session.run.snapshot
        if snapshot is None or self._request is None:
            return
        now = session.record
        if now is None or now.snapshot is not snapshot:
            now = ResultRecord(
                snapshot=snapshot,
                results=values["results"],
                only=self._request.input.only,
                finder=self._request.input.finder,
                source=self._source,
            )
        session.show(now.changed(**{"table": None, **values}))

    def _end(self, phase: Phase, done: int = 0, total: int = 0) -> None:
        self._request, self._forming = None, False
        self._session.run = RunState(phase, done, total, snapshot=self._session.run.snapshot)

    def _ended(self) -> None:
        if self._session.run.running:  # no region was finished
            stopping = self._session.run.phase == "stopping"
            self._end("cancelled" if stopping else "failed")

    def _row_selected(self, _: int) -> None:
        # A picked row is shown instead of heatmaps that form.
        self._forming = self._forming and not self._session.picked
