"""The images of a batch that one process runs, several together where that is faster."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from ..base.errors import Cancelled, MaskInversionError
from ..images.plane_source import brightness_note
from ..pipeline.job import Job, open_job
from ..pipeline.run import ImageRun, run_images, runs_together
from .addresses import here
from .finished import Finished
from .image_run import image_run, kept, read_regions, run_task, store
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
        return sum(1 for _ in takewhile(lambda one: one.settings == settings, tasks[:MOST]))

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
                        runs.append(image_run(copy, job))
                    except (MaskInversionError, OSError, MemoryError) as error:
                        if isinstance(error, Cancelled):
                            raise
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
        for task in left.values():
            yield self(task)
