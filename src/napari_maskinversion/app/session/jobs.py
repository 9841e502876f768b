"""Jobs: the work that the panel has done outside the GUI thread.

A job is of a `JobKind`, tells how far it is as a `Job`, and can be cancelled. It is bound to what
it was asked about: where that is another one by now, its answer is dropped, here and nowhere else.
Threads, and messages to the user, are the `Runner`'s, which a panel brings. Knows no Qt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from psygnal import Signal

from ..work.driver import Job, Outcome, Task, TaskQueue, Work
from .session_models import Models

Subject = Callable[[Models], object]
"""What a job may be about; compared by ``==``."""

# What becomes of a job while another one of its kind is asked for. "single": it goes on, and the
# other one is refused. "latest": the other one replaces it. "queue": the other one follows; all are
# worked off, also those of a panel that is closed.
Mode = Literal["single", "latest", "queue"]


@dataclass(frozen=True, slots=True, eq=False)
class JobKind:
    """A kind of job; `job_kinds` lists all of them."""

    name: str
    title: str  # In messages: "The export" broke off
    mode: Mode
    about: tuple[Subject, ...] = ()  # Where one of these has changed, the answer is late
    kept: str = ""  # What stays after an unexpected error, as a sentence


class Runner(Protocol):
    """The threads of a panel, and how it shows messages."""

    def run(self, queue: TaskQueue, *, to_the_end: bool) -> None:
        """Call `queue.drive` in a thread; an application that closes waits ``to_the_end``."""

    def tell(self, task: Task, value: object) -> None:
        """Called in the thread that works; pass the value to `Jobs.hear` on the GUI thread."""

    def inform(self, text: str) -> None:
        """Show what the user should know."""

    def refuse(self, text: str) -> None:
        """Show why something could not be done."""

    def report(self, error: Exception) -> None:
        """Show an unexpected error."""


@dataclass(slots=True, eq=False, kw_only=True)
class _StartedJob:
    """A job under way, and whom to tell of it."""

    runner: Runner
    subjects: Sequence[Subject]
    asked_about: list[object]  # The subjects when it was started
    done: Callable[[Any], object] | None
    news: Callable[[Any], object] | None
    failed: Callable[[str], object]


class JobSlot:
    """The jobs of one kind: how far they are, and what starts and ends them."""

    changed = Signal()  # A job has begun, is further, stops or has ended
    began = Signal()
    ended = Signal()  # No job is under way any more: it has ended, or was dropped

    def __init__(self, kind: JobKind, jobs: Jobs) -> None:
        self.kind = kind
        self.job: Job | None = None  # How far it is; None while none is under way
        self._jobs = jobs
        self._started: dict[Task, _StartedJob] = {}
        self._queue: TaskQueue | None = None  # once there was a job

    @property
    def busy(self) -> bool:
        """Whether an answer is still to come."""
        return bool(self._started)

    @property
    def idle(self) -> bool:
        """Whether no thread is at work, not even on a job that was dropped."""
        return self._queue is None or not self._queue.driven

    def start(
        self,
        work: Work,  # In a thread; see `driver` for what it may show
        done: Callable[[Any], object] | None = None,  # Takes the answer
        *,
        # Takes what the work shows besides how far it is, such as a part of the answer
        news: Callable[[Any], object] | None = None,
        # Takes the reason why there is no answer; without it, a message shows the reason
        failed: Callable[[str], object] | None = None,
        about: Sequence[Subject] = (),  # Besides what the kind is about
        discard: Callable[[Any], object] | None = None,  # Takes an answer that was dropped
        first: Job | None = None,  # What is shown until the work tells more
    ) -> bool:
        """Start a job; return False if it is refused: another one runs, or no panel is open."""
        runner = self._jobs.runner
        if runner is None or (self.kind.mode == "single" and self.busy):
            return False
        if self.kind.mode == "latest":
            self._forget(list(self._started))
        if self._queue is None:
            self._queue = TaskQueue(runner.tell, self.kind.title, self.kind.kept)
        subjects = (*self.kind.about, *about)
        task = Task(work, discard)
        self._started[task] = _StartedJob(
            runner=runner,
            subjects=subjects,
            asked_about=self._jobs.now(subjects),
            done=done,
            news=news,
            failed=failed or runner.refuse,
        )
        self.job = first or Job()
        if self._queue.add(task):
            runner.run(self._queue, to_the_end=self.kind.mode == "queue")
        self.began.emit()
        self.changed.emit()
        return True

    def cancel(self) -> None:
        """Stop at the next step; a job may still answer with what it has.

        A dropped job of a queue continues: no Cancel is shown for it.
        """
        if self._queue is not None:
            self._queue.stop(self._started)
        if self.job is not None:
            self.job = replace(self.job, stopping=True)
            self.changed.emit()

    def drop(self) -> None:
        """Stop at the next step and tell nothing more; a queue is still worked off."""
        self._drop(list(self._started))

    def drop_those_of(self, runner: Runner) -> None:
        """Drop the jobs of a panel that is closed."""
        self._drop([task for task, job in self._started.items() if job.runner is runner])

    def drop_outdated(self) -> None:
        """Drop the jobs that were asked about something else than there is now."""
        late = []
        for task, job in self._started.items():
            if job.asked_about != self._jobs.now(job.subjects):
                late.append(task)
        self._drop(late)

    def hear(self, task: Task, value: object) -> bool:
        """Take what a job reports; return whether it continues and something was shown."""
        started = self._started.get(task)
        if started is None:  # it was dropped
            return False
        self.drop_outdated()
        if task not in self._started:
            return False
        if isinstance(value, Outcome):
            self._end(task, value)
        elif not task.stop:
            self._show(started, value)
            return True
        return False

    def _show(self, started: _StartedJob, value: object) -> None:
        if isinstance(value, Job):
            before, self.job = self.job, value.without_parts()
            # The user may look elsewhere than at the panel.
            if value.note and (before is None or value.note != before.note):
                started.runner.inform(value.note)
            self.changed.emit()
        if started.news is not None and type(value) is not Job:
            started.news(value)

    def _end(self, task: Task, outcome: Outcome) -> None:
        started = self._started.pop(task)
        task.outcome = None
        if not self.busy:
            self.job = None
        try:
            if started.done is not None:
                for result in outcome.results:
                    started.done(result)
            if isinstance(outcome.failure, Exception):
                started.runner.report(outcome.failure)
            elif outcome.failure:
                started.failed(outcome.failure)
        finally:  # an error of who takes the answer leaves no button and no bar behind
            self._tell_end()

    def _drop(self, tasks: Sequence[Task]) -> None:
        if tasks:
            self._forget(tasks)
            self._tell_end()

    def _forget(self, tasks: Sequence[Task]) -> None:
        """Stop some jobs, unless a queue is to be worked off, and take no answer of them."""
        if self._queue is not None and tasks:
            if self.kind.mode != "queue":
                self._queue.stop(tasks)
            self._queue.drop(tasks)
        for task in tasks:
            del self._started[task]
        if not self.busy:
            self.job = None

    def _tell_end(self) -> None:
        if not self.busy:
            self.ended.emit()
        self.changed.emit()


class Jobs:
    """The jobs of a session, by their kind. Touch it on the GUI thread only."""

    def __init__(self, models: Models) -> None:
        self._models = models
        self._slots: dict[JobKind, JobSlot] = {}
        self._runners: list[Runner] = []  # Of the open panels; there is one, mostly

    def of(self, kind: JobKind) -> JobSlot:
        """Return the jobs of a kind."""
        if kind not in self._slots:
            self._slots[kind] = JobSlot(kind, self)
        return self._slots[kind]

    @property
    def runner(self) -> Runner | None:
        """What runs the jobs that are started now; None without an open panel."""
        if not self._runners:
            return None
        return self._runners[-1]

    def open(self, runner: Runner) -> None:
        """Let a panel run the jobs that are started from now on."""
        self._runners.append(runner)

    def stop(self, runner: Runner) -> None:
        """Drop the jobs of a panel that is being closed, but for those that a queue works off."""
        for slot in list(self._slots.values()):
            if slot.kind.mode != "queue":
                slot.drop_those_of(runner)

    def close(self, runner: Runner) -> None:
        """Drop all jobs of a closed panel; jobs of another panel continue."""
        if runner in self._runners:
            self._runners.remove(runner)
        for slot in list(self._slots.values()):
            slot.drop_those_of(runner)

    def hear(self, task: Task, value: object) -> bool:
        """Take what a job reports; return whether it continues and something was shown."""
        return any(slot.hear(task, value) for slot in list(self._slots.values()))

    def drop_outdated(self, *_: object) -> None:
        """Drop the jobs that were asked about something else than there is now."""
        for slot in list(self._slots.values()):
            slot.drop_outdated()

    def now(self, subjects: Sequence[Subject]) -> list[object]:
        """Return the current values of what jobs may be about."""
        return [subject(self._models) for subject in subjects]
