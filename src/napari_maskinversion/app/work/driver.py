"""Runs tasks one after another in a worker thread. Knows neither Qt nor napari.

A task is a function. What its work tells (`base.progress`) is shown, and stops it where it has to
stop; it may also `show`

- a text, a `Job` or any other value, which is always shown;
- a function without arguments that returns one. It is called, and its value shown, at most ten
  times a second: for steps that follow one another quickly.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from ...base.errors import Cancelled, MaskInversionError
from ...base.progress import listening

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ...images.windows import FloatBox


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Forming:
    """The heatmap of a region being inverted, and where it lies."""

    heatmap: npt.NDArray[np.float32]  # (h, w), 0..1, at the pixels of the model's input
    box: FloatBox
    position: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Job:
    """How far some work is, as the window shows it."""

    text: str = ""  # What goes on, one line: "Image 4 of 10: cells-4.png, inverting"
    fraction: float | None = None  # 0..1; None if unknown
    note: str = ""  # What was changed because memory ran out; empty if it did not
    # What is counted, and all of it: regions of a run, bytes of a download; 0 while unknown
    done: int = 0
    total: int = 0
    name: str = ""  # What is worked on, such as the model that is downloaded
    stopping: bool = False  # Cancel was pressed

    def without_parts(self) -> Job:
        """Return how far the work is, without what a subclass brings along."""
        return Job(**{part.name: getattr(self, part.name) for part in fields(Job)})


Work = Callable[[], Any]
Tell = Callable[["Task", Any], object]

INTERVAL: Final = 0.1
"""Shortest time between two updates, in seconds."""
# Without a GPU, Qt redraws the whole window for each update, on the cores that the task needs: when
# drawing takes more than a 25th of the interval, updates come less often, but twice a second.
LONGEST_INTERVAL: Final = 0.5
DRAWING_SHARE: Final = 25
_PAUSE: Final = 0.01  # seconds between two looks of `wait_until`

_thread = threading.local()
_QUEUES: WeakSet[TaskQueue] = WeakSet()


@dataclass(frozen=True, slots=True)
class Partial:
    """A partial result, which a task may return instead of raising the error that ended it."""

    result: object
    error: BaseException


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended."""

    results: tuple[Any, ...] = ()  # The result, or nothing
    failure: str | JobError = ""  # Empty if nothing failed, or the task was stopped


class Task:
    """One piece of work."""

    def __init__(self, work: Work, discard: Callable[[Any], object] | None = None) -> None:
        self.work: Work | None = work
        self.discard = discard  # Takes a result that nobody wants any more
        self.stop = self.dropped = False
        self.outcome: Outcome | None = None
        self.drawing_seconds = 0.0


class TaskQueue:
    """Tasks of one worker, shared by the GUI thread and the worker thread."""

    def __init__(self, tell: Tell, name: str, kept: str = "") -> None:
        self._tell, self._name, self._kept = tell, name, kept
        self._lock = threading.Lock()
        self._waiting: deque[Task] = deque()
        self._current: Task | None = None
        self.driven = False  # by a thread
        _QUEUES.add(self)

    def add(self, task: Task) -> bool:
        """Add a task and return whether a thread has to be started for it."""
        with self._lock:
            self._waiting.append(task)
            starting, self.driven = not self.driven, True
            return starting

    def stop(self, tasks: Iterable[Task]) -> None:
        """Stop tasks at their next step, and those that have not begun before their first."""
        with self._lock:
            for task in tasks:
                task.stop = True

    def drop(self, tasks: Iterable[Task]) -> None:
        """Discard what these tasks returned or will return; nothing more is told of them."""
        with self._lock:
            outcomes = []
            for task in tasks:
                task.dropped = True
                outcomes.append((task, task.outcome))
                task.outcome = None
        for task, outcome in outcomes:
            _give_up(task, outcome)

    def _next(self) -> Task | None:
        with self._lock:
            self._current = self._waiting.popleft() if self._waiting else None
            self.driven = self._current is not None
            return self._current

    def drive(self, closing: Callable[[], bool] = lambda: False) -> None:
        """Run all tasks; in the worker thread."""
        _thread.queue, _thread.closing = self, closing
        try:
            while (task := self._next()) is not None:
                _thread.task, _thread.shown = task, -INTERVAL
                outcome = self._run(task)
                task.work = None  # and with it the pixels it may hold
                with self._lock:
                    dropped = task.dropped
                    task.outcome = None if dropped else outcome
                if dropped:
                    _give_up(task, outcome)
                else:
                    self._tell(task, outcome)
                del outcome, task
        finally:
            _thread.task = _thread.queue = None

    def _run(self, task: Task) -> Outcome:
        try:
            check_stopped()
            assert task.work is not None
            with listening(hear):
                result = task.work()
            if isinstance(result, Partial):
                failure = failure_of(result.error, self._name, self._kept)
                outcome = Outcome((result.result,), failure)
                # The traceback of its error holds this frame and all tensors of the work: a circle
                # that would keep the memory of a GPU until somebody collects.
                del result
                return outcome
            return Outcome((result,))
        except BaseException as error:
            return Outcome((), failure_of(error, self._name, self._kept))

    def tell(self, task: Task, value: object) -> None:
        """Pass a value to the GUI thread."""
        self._tell(task, Job(text=value) if isinstance(value, str) else value)


def _give_up(task: Task, outcome: Outcome | None) -> None:
    if task.discard is not None and outcome is not None:
        for result in outcome.results:
            task.discard(result)


def any_driven() -> bool:
    """Return whether any worker's thread is at work, also on a task that was dropped."""
    return any(queue.driven for queue in _QUEUES)


def hear(news: Any) -> None:
    """Show a step that the task's work tells, if it has words; stop here if the task has to."""
    if isinstance(news, str):
        show(news)
    elif hasattr(news, "text"):
        show(lambda: Job(text=news.text, fraction=news.fraction, note=getattr(news, "note", "")))
    else:
        check_stopped()


def show(value: object) -> None:
    """Show the progress of the task that runs in this thread; stop here if it has to."""
    check_stopped()
    task = getattr(_thread, "task", None)
    if task is None:
        return
    if callable(value):
        if time.monotonic() - _thread.shown < _interval(task):
            return
        value, _thread.shown = value(), time.monotonic()
    _thread.queue.tell(task, value)


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; stop here if the task that runs in this thread has to."""
    while not is_so():
        time.sleep(_PAUSE)
        show(Job)


def _interval(task: Task) -> float:
    return min(max(INTERVAL, DRAWING_SHARE * task.drawing_seconds), LONGEST_INTERVAL)


def drawing_seconds() -> float:
    """Return how long the window took to show the last update of this thread's task."""
    task = getattr(_thread, "task", None)
    return 0.0 if task is None else float(task.drawing_seconds)


def stop_requested() -> bool:
    """Return whether the task that runs in this thread has to stop."""
    task = getattr(_thread, "task", None)
    return task is not None and (task.stop or bool(_thread.closing()))


def check_stopped() -> None:
    """Stop here if the task that runs in this thread has to."""
    if stop_requested():
        raise Cancelled("Stopped.")


class JobError(MaskInversionError):
    """An unexpected error; its cause is attached."""


def failure_of(error: BaseException, name: str, kept: str = "") -> str | JobError:
    """Return what to tell about an error; empty if the task was stopped."""
    if isinstance(error, Cancelled):
        return ""
    if isinstance(error, JobError):
        return error
    if isinstance(error, MaskInversionError):
        return str(error)
    advice = explain(error)
    if advice:
        return advice
    message = f"{name} broke off: {type(error).__name__}: {error}. {kept}".rstrip()
    unexpected = JobError(message)
    unexpected.__cause__ = error
    return unexpected


def explain(error: BaseException) -> str:
    """Return advice for errors that users can act on; empty for others."""
    if isinstance(error, (MemoryError, RuntimeError)):
        from ...base.oom_fallback import is_out_of_memory

        if is_out_of_memory(error):
            return (
                "There was not enough memory. Choose fewer regions at once in Settings > Method, "
                "or the device 'cpu'."
            )
    if isinstance(error, OSError):
        return f"A file could not be used: {error}"
    return ""
