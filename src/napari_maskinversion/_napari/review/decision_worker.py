"""Carries out what parts of the panel want to decide: in open reviews at once, else in a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from qtpy.QtCore import QObject

from ...app.review.decision_book import DecisionTask
from ...app.review.decision_requests import DecisionOutcome, Request
from ...app.session import Session, Topic, job_kinds
from ...app.work.driver import Job, wait_until
from ...base.errors import Cancelled
from ...batch.project_decisions import ProjectRegions
from ...review.stored_images import Summary
from ..workers.notify import inform, refuse
from .review_keeper import ReviewKeeper

_BUSY: Final = "Wait until the work before is over, or cancel it."


class ProjectWriter(Protocol):
    """What writes the project that is open."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being written; may be asked from any thread."""

    def flush(self) -> None:
        """Begin to write all that is not on the disk yet."""


class DecisionWorker(Topic, QObject):
    """One request at a time; what somebody has decided is saved, also when the window closes.

    A request goes on when another project is opened: its images keep their places.
    """

    def __init__(self, session: Session, keeper: ReviewKeeper, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._keeper = session, keeper
        self.project_writer: ProjectWriter | None = None
        self._waiting: Request | None = None  # for a review that is being opened
        self._task: DecisionTask | None = None  # that the worker carries out
        self._job = session.jobs.of(job_kinds.DECIDE)

    def bind(self) -> None:
        """Follow the session."""
        self.after(self.apply, self._session.review.decide)
        self.after(self._opening_changed, self._session.review.events.opening)
        self.after(self._show_job, self._job.changed)
        self.after(self._ended, self._job.ended)

    def stop(self) -> None:
        """Stop following the session; decisions continue without the panel."""
        super().stop()
        self._forget()

    def cancel(self) -> None:
        """Stop at the next image."""
        if self._waiting is not None:
            self._forget()
        elif self._task is not None:
            self._job.cancel()

    @property
    def busy(self) -> bool:
        """Whether decisions are being saved."""
        return self._job.busy

    def _forget(self) -> None:
        self._waiting = None
        self._task = None
        self._job.drop()
        self._session.status.many = None

    # -- a request ----------------------------------------------------------------------------

    def apply(self, request: Request) -> None:
        """Decide, or wait for the review that is being opened; or say why not."""
        session = self._session
        if session.status.many is not None or self._waiting is not None:
            refuse(_BUSY)
        elif request.source is None:
            self._apply_here(request)
        elif (
            session.run.progress.running
            and session.review.state is not None
            and session.reviewed is None
        ):
            refuse("Wait until the run is over, or cancel it: its image is under review.")
        elif session.review.opening:
            self._waiting = request
            session.status.many = Job("Opening the review ...")
        else:
            self._start(request)

    def _apply_here(self, request: Request) -> None:
        """Decide about the image shown, whose review is opened for that."""
        target = self._keeper.target
        if self._session.reviewed is not None:
            self._start(request)
        elif target is None or target.results is not self._session.run.results:
            refuse("You can decide after the run.")
        elif self._keeper.is_opening or self._keeper.begin(unasked=True):
            self._waiting = request  # else it cannot be opened, which was said

    def _opening_changed(self, opening: bool) -> None:
        """Do what has waited for a review."""
        request = self._waiting
        if request is None or opening:
            return
        self._waiting = None
        if request.source is not None:
            self._session.status.many = None
            self._start(request)
        elif self._session.reviewed is not None:  # else it could not be opened, which was said
            self._start(request)

    def _start(self, request: Request) -> None:
        task = self._session.decisions.start(request)
        if request.source is None or not task.pending:
            self._finish(task)
            return
        self._task = task
        if self.project_writer is not None:
            self.project_writer.flush()
        self._session.status.notice = None
        work = partial(save_decisions, task, self._is_saved)
        news = partial(self._tell_counts, task)
        self._job.start(work, self._finish, news=news, failed=self._failed)

    def _tell_counts(self, task: DecisionTask, summaries: Mapping[str, Summary]) -> None:
        """Tell how far images are decided, unless their project is not open any more."""
        if not self._is_of_closed_project(task):
            self._session.project.counted.emit(summaries)

    def _is_of_closed_project(self, task: DecisionTask) -> bool:
        """Whether another project is open by now, which may have images of the same names."""
        source, project = task.request.source, self._session.project.state
        if not isinstance(source, ProjectRegions):
            return False
        return project is None or project.file != str(source.file)

    def _is_saved(self) -> bool:
        """Whether the project is on the disk; asked in the worker."""
        return self.project_writer is None or self.project_writer.is_idle

    def _show_job(self) -> None:
        if self._job.job is not None and self._task is not None:
            self._session.status.many = self._job.job

    def _ended(self) -> None:
        if self._task is not None:  # it was stopped before it began
            self._task.stopped = True
            self._finish(self._task)

    def _failed(self, why: str) -> None:
        """Tell of what was decided before the work broke off."""
        task, self._task = self._task, None
        self._session.status.many = None
        if task is not None:
            self._tell_outcome(task)
        refuse(why)

    def _finish(self, task: DecisionTask) -> None:
        self._task = None
        if task.request.source is not None:
            self._session.status.many = None
        self._say(self._tell_outcome(task))

    def _tell_outcome(self, task: DecisionTask) -> DecisionOutcome:
        task.project_closed = self._is_of_closed_project(task)
        return self._session.decisions.finish(task)

    def _say(self, outcome: DecisionOutcome) -> None:
        state = self._session.reviewed
        if outcome.source is not None:
            (refuse if outcome.problems else inform)(outcome.text)
        elif outcome.problems:
            refuse(next(iter(outcome.problems.values())))
        elif state is not None and outcome.steps:
            step = next(iter(outcome.steps.values()))
            self._session.say(state.decision_text(step) if self._session.undecided else "")


def save_decisions(task: DecisionTask, is_saved: Callable[[], bool]) -> DecisionTask:
    """Wait until the project is on the disk, then decide in files."""
    try:
        wait_until(is_saved)
    except Cancelled:
        task.stopped = True
        return task
    task.run()
    return task
