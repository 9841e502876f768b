"""The images of a batch in this process: a thread does them, several together where that pays."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from ..base.errors import Cancelled, MaskInversionError
from ..base.progress import listening
from ..images.plane_source import brightness_note
from ..pipeline.job import Job, open_job
from ..pipeline.run import ImageRun, ranker_of, run_images, runs_together
from .addresses import here
from .executors import BEGUN, TaskExecutor, Work, share_of
from .finished import Finished
from .image_run import kept, read_regions, run_task, store, words_and_bank
from .image_task import ImageTask, Report

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone

MOST: Final = 16  # images: their regions are in memory, and Ctrl-C may cost what is begun


@dataclass(frozen=True)
class RunTasks:
    """The work of a process that holds the model."""

    model: Backbone

    def __call__(self, task: ImageTask) -> Report:
        """Run an image as `run_task` does."""
        return run_task(task, model=self.model)

    def count(self, tasks: Sequence[ImageTask]) -> int:
        """Return how many of the first tasks to run together."""
        settings = tasks[0].settings
        if not runs_together(self.model, settings):
            return 1
        return sum(1 for _ in takewhile(lambda task: task.settings == settings, tasks[:MOST]))

    def all(self, tasks: Sequence[ImageTask]) -> Generator[Report]:
        """Run images, in groups where that is faster."""
        while tasks:
            count = self.count(tasks)
            yield from self.together(tasks[:count])
            tasks = tasks[count:]

    def together(self, tasks: Sequence[ImageTask]) -> Generator[Report]:
        """Run images with the same settings; yield the report of each when it is done.

        Windows of several images are encoded and inverted in one go. What fails together is done
        again alone.
        """
        if len(tasks) == 1:
            yield self(tasks[0])
            return
        left = {task.name: task for task in tasks}
        try:
            with ExitStack() as files:
                runs: list[ImageRun] = []
                opened: list[tuple[ImageTask, Job, Finished]] = []
                for task in tasks:
                    try:
                        if (report := kept(task)) is not None:
                            del left[task.name]
                            yield report
                            continue
                        mark = Finished.of(task)
                        copy = files.enter_context(here(task))
                        opening = open_job(
                            copy.image, copy.regions, copy.settings, read=read_regions
                        )
                        job = files.enter_context(opening)
                        words, bank = words_and_bank(copy, job)
                        ranker = ranker_of(words, job.settings)
                        runs.append(
                            ImageRun(tasks=job.tasks, words=ranker, units=job.units, bank=bank)
                        )
                    except (MaskInversionError, OSError, MemoryError):
                        continue  # alone it is tried again, or tells why it cannot be run
                    opened.append((task, job, mark))
                for place, results in run_images(self.model, runs, tasks[0].settings):
                    task, job, mark = opened[place]
                    is_new = store(task, job.bundle(results), mark)
                    note = brightness_note(job.tasks[0].source)
                    del left[task.name]
                    yield Report(
                        name=task.name,
                        regions=len(results) if is_new else 0,
                        kept=not is_new,
                        notes=(note,) if note else (),
                    )
        except Cancelled:
            yield from (Report(name=name, stopped=True) for name in left)
            return
        except Exception:  # of one image, or of a disk: alone, each tells its own
            pass
        is_stopped = False
        for task in left.values():
            if is_stopped:
                report = Report(name=task.name, stopped=True)
            else:
                report = self(task)
            is_stopped = report.stopped
            yield report


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
        self._share = 0.0
        self._stopped = False

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
        several = None
        if isinstance(work, RunTasks):
            several = work
        if several is None:
            count = 1
        else:
            count = several.count([task for task, _ in self._waiting])
        group = [self._waiting.popleft() for _ in range(count)]
        tasks = []
        for task, future in group:
            if future.set_running_or_notify_cancel():
                tasks.append(task)
        if not tasks:
            return
        self._share = BEGUN
        self._now = {task.name: future for task, future in group if not future.cancelled()}
        try:
            with listening(self._step):
                for report in several.together(tasks) if several else map(work, tasks):
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
        share_left = (self._share * count - (count - len(left))) / max(1, len(left))
        return dict.fromkeys(left, max(share_left, BEGUN))

    def __exit__(self, kind: Any, error: Any, where: Any) -> None:
        self._stopped = kind is not None
        self._pool.shutdown(cancel_futures=True)
