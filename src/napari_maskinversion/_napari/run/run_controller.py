"""Runs: starts them, shows their progress and hands their results to the session."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from qtpy.QtCore import QObject

from ...app.requests.preparing import make_request
from ...app.requests.run_task import RunTask, RunUpdate
from ...app.session import Phase, ResultRecord, RunState, Session, Topic, job_kinds
from ...app.work.driver import Job
from ...app.work.model_store import ModelStore
from ...results.agreement import agreement_of
from ..layers.results_on_canvas import ResultsOnCanvas
from ..workers.notify import inform, refusing

if TYPE_CHECKING:
    from napari.components import ViewerModel

    from ...app.layer_input.run_input import PlaneFinder
    from ...app.requests.run_task import Request


class RunController(Topic, QObject):
    """One run at a time."""

    def __init__(
        self,
        viewer: ViewerModel,
        session: Session,
        canvas: ResultsOnCanvas,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._canvas, self._store = viewer, session, canvas, store
        self._finder: PlaneFinder | None = None  # while heatmaps are shown as they form
        self._noted: set[str] = set()  # models whose flags were explained
        self.job = session.jobs.of(job_kinds.RUN)

    def bind(self) -> None:
        """Follow the session."""
        review = self._session.review.events
        self.after(self._row_selected, review.row)
        self.after(lambda: self.cancel(), self._session.run.cancel)
        self.after(self._show_job, self.job.changed)
        self.after(self._ended, self.job.ended)

    def start(self, *, keep: bool = False) -> None:
        """Start a run, or show why it cannot start.

        With ``keep`` regions that have not changed since the results shown keep their embeddings.
        """
        if self.job.busy or self._session.run.progress.running:
            return
        with refusing():
            request = self.request(keep=keep)
            # The results shown stay until the first new ones: a refused run loses nothing.
            self._finder = request.input.finder if request.forming else None
            self._session.begin_run(request.snapshot)
            work = RunTask(request, self._store).work
            self.job.start(work, self._done, news=self._show_update)

    def request(self, *, keep: bool = False) -> Request:
        """Return what a run would work on now."""
        return make_request(self._viewer, self._session, captioned=True, keep=keep)

    def cancel(self) -> None:
        """Stop at the next step; finished regions stay."""
        self.job.cancel()
        if self.job.busy:
            self._session.run.progress = replace(self._session.run.progress, phase="stopping")

    def _show_job(self) -> None:
        if self.job.job is not None:
            self._session.run.progress = replace(self._session.run.progress, job=self.job.job)

    def _show_update(self, update: RunUpdate) -> None:
        session = self._session
        if update.record is not None:
            session.show(update.record)
        snapshot = session.run.progress.snapshot
        image = None if snapshot is None else snapshot.image
        if update.forming is not None and self._finder is not None and image is session.run.image:
            self._canvas.show_forming(update.forming, image, self._finder)

    def _done(self, record: ResultRecord) -> None:
        self._session.show(record)
        done, info = len(record.results), record.results.info
        self._end("done" if done >= record.total else self._stopped, done, record.total)
        agreement = agreement_of(record.results)
        if agreement is not None:
            inform(agreement.text)
        if info.flags_note and info.model not in self._noted:
            self._noted.add(info.model)
            inform(info.flags_note)

    @property
    def _stopped(self) -> Phase:
        return "cancelled" if self._session.run.progress.phase == "stopping" else "failed"

    def _end(self, phase: Phase, done: int = 0, total: int = 0) -> None:
        self._finder = None
        snapshot = self._session.run.progress.snapshot
        self._session.run.progress = RunState(phase, snapshot, Job(done=done, total=total))

    def _ended(self) -> None:
        if self._session.run.progress.running:  # no region was finished
            self._end(self._stopped)

    def _row_selected(self, _: int) -> None:
        if self._session.review.picked:  # which is shown instead of heatmaps that form
            self._finder = None
