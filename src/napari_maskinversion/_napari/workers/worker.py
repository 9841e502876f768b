"""Work in a thread. Nothing else in the panel starts one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal
from weakref import ref

from qtpy.QtCore import QObject, QTimer, Signal
from superqt.utils import create_worker

from ...app.work.driver import Job, Outcome, Task, TaskQueue, Work
from .job_runner import _end_threads_of_window, _note_drawn, when_idle
from .notify import inform, report

__all__ = ["Worker", "when_idle"]
Mode = Literal["single", "latest", "queue"]


class _Relay(QObject):
    """Carries values from the worker thread to the GUI thread, and lives as long as both need it.

    The thread holds `tell`, a method, since PyQt's bound signals do not keep their object alive.
    """

    told = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        self.queue: TaskQueue | None = None
        self.wanted: list[Task] = []

    def stop(self) -> None:
        if self.queue is not None:  # it is, while both are being collected
            self.queue.stop()
            self.queue.drop(self.wanted)

    def tell(self, task: Task, value: object) -> None:
        self.told.emit(task, value)


class Worker(QObject):
    """Runs functions in a thread, one at a time; see `driver` for what they show.

    Not on napari's ``thread_worker``: it keeps every worker alive, with all that its function
    holds, as long as the window lives.
    """

    progressed = Signal(object)
    done = Signal(object)
    failed = Signal(str)
    ended = Signal()

    def __init__(
        self,
        mode: Mode,
        name: str = "The work",
        done: Callable[[Any], object] | None = None,
        failed: Callable[[str], object] | None = None,
        *,
        kept: str = "",
        discard: Callable[[Any], object] | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        if done is not None:
            self.done.connect(done)
        if failed is not None:
            self.failed.connect(failed)
        self._mode = mode
        self._note = ""
        self._relay = _Relay()
        self._relay.told.connect(self._on_told)
        self._wanted = self._relay.wanted
        self._discard = discard
        self._queue = TaskQueue(self._relay.tell, name, kept)
        if mode != "queue":
            self._relay.queue = self._queue
            self.destroyed.connect(self._relay.stop)

    @property
    def busy(self) -> bool:
        """Whether an outcome is still to come."""
        return bool(self._wanted)

    @property
    def idle(self) -> bool:
        """Whether no thread is at work, not even on a task that was dropped."""
        return not self._queue.driven

    def start(self, work: Work) -> bool:
        """Run a function; return False if the mode refuses it."""
        if self._mode == "single" and self.busy:
            return False
        if self._mode == "latest":
            self.drop()
        task = Task(work, self._discard)
        self._wanted.append(task)
        if self._queue.add(task):
            self._start_thread()
        return True

    def _start_thread(self) -> None:
        _end_threads_of_window()
        if self._mode == "queue":
            # At once: superqt's threads wait for the event loop, and for others to end, while a
            # window that closes waits for what is written here.
            threading.Thread(target=self._queue.drive).start()
            return
        threads: list[ref[Any]] = []

        def closing() -> bool:
            thread = threads[0]()
            return thread is not None and bool(thread.abort_requested)

        thread = create_worker(self._queue.drive, closing, _ignore_errors=True)
        threads.append(ref(thread))
        thread.start()

    def cancel(self) -> None:
        """Stop at the next step; a task may still return what it has."""
        self._queue.stop()

    def drop(self) -> None:
        """Stop at the next step and tell nothing more; a ``queue`` is still worked off."""
        if self._mode != "queue":
            self._queue.stop()
        self._queue.drop(self._wanted)
        self._wanted.clear()

    def _on_told(self, task: Task, value: object) -> None:
        if isinstance(value, Outcome):
            self._on_outcome(task, value)
        elif task in self._wanted and not task.stop:
            began = time.monotonic()
            if isinstance(value, Job) and value.note != self._note:
                self._note = value.note
                if value.note:  # the user may look elsewhere than at the panel
                    inform(value.note)
            self.progressed.emit(value)
            # Called when everything that this changed has been drawn.
            QTimer.singleShot(0, partial(_note_drawn, task, began))

    def _on_outcome(self, task: Task, outcome: Outcome) -> None:
        if task not in self._wanted:  # dropped when its outcome was on its way
            return
        self._wanted.remove(task)
        task.outcome = None
        self._note = ""
        for result in outcome.results:
            self.done.emit(result)
        if isinstance(outcome.failure, Exception):
            report(outcome.failure)
        elif outcome.failure:
            self.failed.emit(outcome.failure)
        if not self._wanted:
            self.ended.emit()
