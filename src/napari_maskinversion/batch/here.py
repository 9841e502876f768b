"""A thread of this process does the tasks of a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..base.errors import Cancelled
from ..base.progress import listening
from .executors import BEGUN, TaskExecutor, Work, share_of
from .image_task import ImageTask, Report
from .together import MOST, RunTasks


class Here(TaskExecutor):
    """A thread of this process, so that Ctrl-C is heard at once.

    A second one, which wrote one image while the first computed the next, was slower.
    """

    at_once = 2 * MOST
    is_here = True

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: deque[tuple[ImageTask, Future[Report]]] = deque()
        self._now: dict[str, Future[Report]] = {}
        self._share, self._stopped = 0.0, False

    def submit(self, work: Work, task: ImageTask) -> Future[Report]:
        """Begin a task when those before it are done, together with others if work does so."""
        future: Future[Report] = Future()
        self._waiting.append((task, future))
        self._pool.submit(self._next, work)
        return future

    def _next(self, work: Work) -> None:
        """Do the next tasks; none if they were done with those before them."""
        if not self._waiting:
            return
        several = work if isinstance(work, RunTasks) else None
        count = 1 if several is None else several.count([task for task, _ in self._waiting])
        group = [self._waiting.popleft() for _ in range(count)]
        tasks = [task for task, future in group if future.set_running_or_notify_cancel()]
        if not tasks:
            return
        self._share = BEGUN
        self._now = {task.name: future for task, future in group if not future.cancelled()}
        try:
            with listening(self._step):
                reports = several.together(tasks) if several else map(work, tasks)
                for report in reports:
                    self._now[report.name].set_result(report)
        except BaseException as error:  # the batch ends with it
            for future in self._now.values():
                if not future.done():
                    future.set_exception(error)

    def _step(self, news: Any) -> None:
        if self._stopped:
            raise Cancelled("The batch was stopped.")
        self._share = share_of(news, self._share)

    def underway(self) -> Mapping[str, float]:
        """Return the share that is done of the images at hand."""
        left = [name for name, future in self._now.items() if not future.done()]
        count = len(self._now)
        rest = (self._share * count - (count - len(left))) / max(1, len(left))
        return dict.fromkeys(left, max(rest, BEGUN))

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        self._stopped = kind is not None
        self._pool.shutdown(cancel_futures=True)
