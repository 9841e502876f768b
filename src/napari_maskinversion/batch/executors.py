"""What does the tasks of a batch: this process, or several."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import connection
from threading import Thread
from typing import Any, ParamSpec, TypeVar

from ..base.errors import Cancelled
from .image_run import run_task
from .image_task import ImageTask, Report

P = ParamSpec("P")
T = TypeVar("T")


class InThisProcess(Executor):
    """Does each task when it is submitted."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Do a task; what it raises, for example for Ctrl-C, is raised here."""
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class Workers(ProcessPoolExecutor):
    """Processes that each load the model once and share the processor's cores.

    Leaving the ``with`` block after an error stops them between two steps of their images. They
    end with this process, however it ends.

    Parameters
    ----------
    count : int
    """

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._stop = context.Event()
        threads = max(1, (os.cpu_count() or 1) // count)
        super().__init__(
            count, mp_context=context, initializer=_begin, initargs=(threads, self._stop)
        )

    def __exit__(self, kind: Any, error: Any, where: Any) -> bool | None:
        if kind is not None:
            self._stop.set()
        return super().__exit__(kind, error, where)


_stop: Any = None


def run_in_worker(task: ImageTask) -> Report:
    """Do a task in a process of `Workers`."""
    return run_task(task, on_step=_stop_if_asked)


def _begin(threads: int, stop: Any) -> None:
    """Prepare a worker process."""
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which asks
    Thread(target=_end_with_parent, daemon=True).start()
    import torch

    torch.set_num_threads(threads)


def _end_with_parent() -> None:
    """End a process whose parent was killed; its half-written files are cleared later."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _stop_if_asked(_: object) -> None:
    if _stop is not None and _stop.is_set():
        raise Cancelled("The batch was stopped.")
