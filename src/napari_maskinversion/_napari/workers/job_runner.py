"""The threads of jobs. Nothing else in the panel starts one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final
from weakref import ref

from qtpy.QtCore import QObject, QTimer, Signal
from superqt.utils import create_worker

from ...app.session.jobs import Jobs
from ...app.work.driver import Task, TaskQueue, any_driven
from ...engine.compute.lazy_torch import torch_if_loaded
from . import notify

_AGAIN: Final = 100  # milliseconds


class JobRunner(QObject):
    """Runs the jobs of a panel in threads, and drops them when the panel is closed or deleted.

    Not on napari's ``thread_worker``: it keeps every worker alive, with all that its function
    holds, as long as the window lives. The runner has no parent: a thread may still tell something
    when Qt has deleted the panel.
    """

    passed_on = Signal(object, object)  # From a thread that works to the GUI thread

    def __init__(self, jobs: Jobs, panel: QObject) -> None:
        super().__init__()
        self._jobs = jobs
        self.passed_on.connect(self._hear)
        panel.destroyed.connect(self.close)

    def open(self) -> None:
        """Run what is started from now on."""
        self._jobs.open(self)

    def stop(self) -> None:
        """Drop what is at work, but for what is written; topics may still write what is left."""
        self._jobs.stop(self)

    def close(self) -> None:
        """Run nothing more, and tell nothing more of what is written."""
        self._jobs.close(self)

    # -- for the jobs -------------------------------------------------------------------------

    def run(self, queue: TaskQueue, *, to_the_end: bool) -> None:
        """Work a queue off in a thread."""
        _end_threads_of_window()
        if to_the_end:
            # At once: superqt's threads wait for the event loop, and for others to end, while a
            # window that closes waits for what is written here.
            threading.Thread(target=queue.drive).start()
            return
        threads: list[ref[Any]] = []

        def closing() -> bool:
            thread = threads[0]()
            return thread is not None and bool(thread.abort_requested)

        thread = create_worker(queue.drive, closing, _ignore_errors=True)
        threads.append(ref(thread))
        thread.start()

    def tell(self, task: Task, value: object) -> None:
        """Pass on what a thread tells."""
        self.passed_on.emit(task, value)

    def inform(self, text: str) -> None:
        """Show what the user should know."""
        notify.inform(text)

    def refuse(self, text: str) -> None:
        """Show why something could not be done."""
        notify.refuse(text)

    def report(self, error: Exception) -> None:
        """Show an unexpected error."""
        notify.report(error)

    def _hear(self, task: Task, value: object) -> None:
        began = time.monotonic()
        if self._jobs.hear(task, value):
            # Called when everything that this changed has been drawn.
            QTimer.singleShot(0, partial(_note_drawn, task, began))


def _end_threads_of_window() -> None:
    """End the OpenMP threads of the GUI thread, which would slow those of the jobs.

    napari colours labels with numba, if it is installed, whose parallel loops keep such threads.
    """
    if torch_if_loaded() is not None:
        from ...engine.compute.compute_lock import end_threads

        end_threads()


def _note_drawn(task: Task, began: float) -> None:
    _end_threads_of_window()
    # It decays, since an update that changes nothing visible costs nothing.
    task.drawing_seconds = max(time.monotonic() - began, 0.7 * task.drawing_seconds)


def when_idle(action: Callable[[], object]) -> None:
    """Call a function on the GUI thread once no job is at work: now, if none is."""
    if any_driven():
        QTimer.singleShot(_AGAIN, partial(when_idle, action))
    else:
        action()
