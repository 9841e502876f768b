"""What does the tasks of a batch: several processes. `together` has this one, `cluster` Dask's."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import (
    BrokenExecutor,
    Future,
    ProcessPoolExecutor,
)
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import SpawnContext, SpawnProcess
from threading import Thread
from time import monotonic
from typing import Any, Final, Protocol, Self

from ..base.errors import Cancelled
from ..base.progress import Tick, listening
from .image_task import ImageTask, Report

THREADS: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
BEGUN: Final = 1e-6  # share of an image of which nothing is done yet
_SPAWN: Final = multiprocessing.get_context("spawn")
_GRACE: Final = 0.5  # seconds for the step that is at work when a batch is stopped


class Work(Protocol):
    """What is done with a task; it can be sent to another process by its name."""

    def __call__(self, task: ImageTask) -> Report:
        """Do a task; a listener hears of its steps, and raises `Cancelled` to stop it."""


class TaskExecutor(ABC):
    """What does the tasks of a batch; use it in a ``with`` block.

    Leaving the block after an error stops the tasks between two steps, within a second.
    """

    at_once: int = 1  # How many tasks it should hold
    is_here: bool = False  # Whether it does them in this process
    about: str = ""  # One line for users about where the work is done; "" for this machine
    # What a future raises whose process ended suddenly, or one beside it: its task is done again
    died: tuple[type[Exception], ...] = (BrokenExecutor,)

    @abstractmethod
    def submit(self, work: Work, task: ImageTask) -> Future[Report]:
        """Begin a task, or do it later. A future that is cancelled has lost its cluster."""

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


class Workers(TaskExecutor):
    """Processes that each load the model once and share the processor's cores.

    They end with this process, however it ends. If one of them dies, they are started again. A
    batch that is stopped ends those whose step takes long, such as loading a library: their image
    is done again later, since what a killed process leaves behind is never taken for a result.
    """

    def __init__(self, count: int, gpus: Sequence[str] = ()) -> None:
        self.at_once = 2 * count
        # Memory without locks: a process may be killed while it holds one.
        stop = _SPAWN.RawValue("b", 0)
        shares = _SPAWN.RawArray("d", self.at_once)
        self._state = _State(stop, shares)
        self._open: dict[int, tuple[str, Future[Report]]] = {}  # by place among the shares
        self._count = count
        self._gpus = tuple(gpus)
        self._context = _Processes()
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        threads = max(1, (os.cpu_count() or 1) // self._count)
        arguments = (threads, self._gpus, self._state.stop, self._state.shares)
        return ProcessPoolExecutor(
            self._count, mp_context=self._context, initializer=_begin, initargs=arguments
        )

    def submit(self, work: Work, task: ImageTask) -> Future[Report]:
        """Begin a task when a process is free."""
        place = next(n for n in range(self.at_once) if n not in self._open or self._is_done(n))
        self._state.shares[place] = 0
        try:
            future = self._pool.submit(_do, work, task, place)
        except BrokenExecutor:
            self._pool.shutdown(wait=False)
            self._pool = self._started()
            future = self._pool.submit(_do, work, task, place)
        self._open[place] = task.name, future
        return future

    def _is_done(self, place: int) -> bool:
        return self._open[place][1].done()

    def underway(self) -> Mapping[str, float]:
        """Return the share that is done of each image that a process has begun."""
        shares = self._state.shares
        names = {}
        for n, (name, _) in self._open.items():
            if not self._is_done(n):
                names[name] = shares[n]
        return {name: share for name, share in names.items() if share}

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        if kind is None:
            self._pool.shutdown(cancel_futures=True)
            return
        self._state.stop.value = 1
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._context.end(_GRACE)


class _Processes(SpawnContext):
    """Starts processes as the context ``spawn`` does, and knows those that it has started."""

    def __init__(self) -> None:
        super().__init__()
        self._started: list[SpawnProcess] = []

    def Process(  # type: ignore[override]  # noqa: N802 - the name that pools ask for
        self, *arguments: Any, **values: Any
    ) -> SpawnProcess:
        """Make a process, and note it."""
        process = SpawnProcess(*arguments, **values)
        self._started.append(process)
        return process

    def end(self, grace: float) -> None:
        """Wait some seconds for all processes to end by themselves; kill the others."""
        running = list(self._started)
        end = monotonic() + grace
        # All have the same time together, not one after the other.
        while running and (left := end - monotonic()) > 0:
            ended = connection.wait([process.sentinel for process in running], left)
            running = [process for process in running if process.sentinel not in ended]
        for process in running:
            process.kill()


@dataclass(slots=True)
class _State:
    """What processes share with the first one: whether they are to stop, and how far they are."""

    stop: Any
    shares: Any


_own: list[_State] = []  # in a worker process: what it was started with


def _do(work: Work, task: ImageTask, place: int) -> Report:
    """Do a task in a process of `Workers`."""
    shared = _own[0]
    shared.shares[place] = BEGUN

    def step(news: Any) -> None:
        if shared.stop.value:
            raise Cancelled("The batch was stopped.")
        shared.shares[place] = share_of(news, shared.shares[place])

    with listening(step):
        return work(task)


def share_of(news: Any, before: float) -> float:
    """Return the share of an image that is done; some steps of a run do not tell."""
    if isinstance(news, Tick):  # of a part of it
        return before
    return max(before, float(getattr(news, "fraction", 0)))


def _begin(threads: int, gpus: Sequence[str], stop: Any, shares: Any) -> None:
    """Prepare a worker process."""
    _own[:] = [_State(stop, shares)]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process, which asks
    Thread(target=_end_with_parent, daemon=True).start()
    take_gpu(multiprocessing.current_process().name.rpartition("-")[2], gpus)  # SpawnProcess-3
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


def gpus_for(device: str) -> tuple[str, ...]:
    """Return the GPUs among which workers choose, as `VISIBLE` names them."""
    if device not in ("auto", "cuda"):
        return ()
    import torch

    count = torch.cuda.device_count()
    named = [name for name in os.environ.get(VISIBLE, "").split(",") if name]
    return tuple(named[:count] if named else map(str, range(count)))


def take_gpu(number: str, gpus: Sequence[str]) -> None:
    """Let this process see one GPU, in turns by its number; CUDA must not have been used yet."""
    if gpus:
        os.environ[VISIBLE] = gpus[(int(number) if number.isdecimal() else 0) % len(gpus)]
