"""What does the tasks of a batch: this process, or several. `cluster` has those of Dask."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import connection
from threading import Event, Thread
from typing import Any, ClassVar, Final, Protocol, Self

from ..base.errors import Cancelled
from ..base.progress import Tick, listening
from .gpus import take_gpu
from .image_task import ImageTask, Report

THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
BEGUN: Final = 1e-6  # share of an image of which nothing is done yet


class Work(Protocol):
    """What is done with a task; it can be sent to another process by its name."""

    def __call__(self, task: ImageTask) -> Report:
        """Do a task; a listener hears of its steps, and raises `Cancelled` to stop it."""


class WorkerDied(Exception):
    """The process that did a task, or one beside it, ended suddenly."""

    def __init__(self, times: int) -> None:
        super().__init__("A worker process ended suddenly.")
        self.times = times


class ClusterLost(Exception):
    """What distributes the tasks went away; the text says so in one line."""


class TaskExecutor(ABC):
    """What does the tasks of a batch; use it in a ``with`` block.

    The future of a task raises `WorkerDied` or `ClusterLost` if it is to be submitted again.
    Leaving the block after an error stops the tasks between two steps.
    """

    at_once: int = 1  # How many tasks it should hold
    about: str = ""  # One line for users about where the work is done; "" for this machine

    @abstractmethod
    def submit(self, work: Work, task: ImageTask) -> Future[Report]:
        """Begin a task, or do it later."""

    @abstractmethod
    def underway(self) -> Mapping[str, float]:
        """Return the share (0..1) that is done of each image that was begun, by name."""

    def note(self) -> str:
        """Return one line about what keeps it from working; "" if nothing does."""
        return ""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, kind: Any, error: Any, where: Any) -> None: ...


class InThisProcess(TaskExecutor):
    """Does one task after the other in a thread, so that Ctrl-C is heard at once.

    A second thread, which wrote one image while the first computed the next, was slower.
    """

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(1)
        self._stop = Event()
        self._shares: dict[str, float] = {}

    def submit(self, work: Work, task: ImageTask) -> Future[Report]:
        """Begin a task when a thread is free."""
        return self._threads.submit(self._do, work, task)

    def underway(self) -> Mapping[str, float]:
        """Return the share that is done of each image that was begun."""
        return dict(self._shares)

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        if kind is not None:
            self._stop.set()
        self._threads.shutdown(cancel_futures=True)

    def _do(self, work: Work, task: ImageTask) -> Report:
        def step(news: Any) -> None:
            if self._stop.is_set():
                raise Cancelled("The batch was stopped.")
            self._shares[task.name] = share_of(news, self._shares[task.name])

        self._shares[task.name] = 0
        try:
            with listening(step):
                return work(task)
        finally:
            del self._shares[task.name]


class Workers(TaskExecutor):
    """Processes that each load the model once and share the processor's cores.

    They end with this process, however it ends. If one of them dies, they are started again.
    """

    def __init__(self, count: int, gpus: Sequence[str] = ()) -> None:
        self.at_once = 2 * count
        self._context = multiprocessing.get_context("spawn")
        # Memory without locks: a process may be killed while it holds one.
        self._stop = self._context.RawValue("b", 0)
        self._shares = self._context.RawArray("d", self.at_once)
        self._names: dict[int, str] = {}
        self._count, self._gpus = count, tuple(gpus)
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        threads = max(1, (os.cpu_count() or 1) // self._count)
        return ProcessPoolExecutor(
            self._count,
            mp_context=self._context,
            initializer=_begin,
            initargs=(threads, self._gpus, self._stop, self._shares),
        )

    def submit(self, work: Work, task: ImageTask) -> Future[Report]:
        """Begin a task when a process is free."""
        place = next(n for n in range(self.at_once) if n not in self._names)
        self._shares[place], self._names[place] = 0, task.name
        try:
            inner = self._pool.submit(_do, work, task, place)
        except BrokenExecutor:
            self._pool.shutdown(wait=False)
            self._pool = self._started()
            inner = self._pool.submit(_do, work, task, place)
        outer: Future[Report] = Future()
        inner.add_done_callback(partial(self._finish, outer, place))
        return outer

    def _finish(self, outer: Future[Report], place: int, inner: Future[Report]) -> None:
        begun = self._shares[place] > 0
        del self._names[place]
        if inner.cancelled():
            outer.cancel()
            return
        error = inner.exception()
        if isinstance(error, BrokenExecutor):
            error = WorkerDied(times=int(begun))
        if not outer.set_running_or_notify_cancel():
            return
        if error is not None:
            outer.set_exception(error)
        else:
            outer.set_result(inner.result())

    def underway(self) -> Mapping[str, float]:
        """Return the share that is done of each image that a process has begun."""
        shares = {name: self._shares[place] for place, name in list(self._names.items())}
        return {name: share for name, share in shares.items() if share}

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        if kind is not None:
            self._stop.value = 1
        self._pool.shutdown(cancel_futures=True)


class _InWorker:
    """What a process of `Workers` shares with the first one."""

    stop: ClassVar[Any] = None
    shares: ClassVar[Any] = None


def _do(work: Work, task: ImageTask, place: int) -> Report:
    """Do a task in a process of `Workers`."""
    _InWorker.shares[place] = BEGUN

    def step(news: Any) -> None:
        if _InWorker.stop.value:
            raise Cancelled("The batch was stopped.")
        _InWorker.shares[place] = share_of(news, _InWorker.shares[place])

    with listening(step):
        return work(task)


def share_of(news: Any, before: float) -> float:
    """Return the share of an image that is done; some steps of a run do not tell."""
    if isinstance(news, Tick):  # of a part of it
        return before
    return max(before, float(getattr(news, "fraction", 0)))


def _begin(threads: int, gpus: Sequence[str], stop: Any, shares: Any) -> None:
    """Prepare a worker process."""
    _InWorker.stop, _InWorker.shares = stop, shares
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which asks
    Thread(target=_end_with_parent, daemon=True).start()
    number = multiprocessing.current_process().name.rpartition("-")[2]  # SpawnProcess-3
    take_gpu(int(number) if number.isdecimal() else 0, gpus)
    limit_threads(threads)


def limit_threads(threads: int) -> None:
    """Let this process compute with so many threads; loads nothing."""
    os.environ.update(dict.fromkeys(THREADS, str(threads)))  # for libraries to come
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(threads)


def _end_with_parent() -> None:
    """End a process whose parent was killed; its half-written files are cleared later."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
