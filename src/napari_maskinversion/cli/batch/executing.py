"""What does the work of a batch, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import typer

from ...base.errors import InputError
from ...batch.cluster import LOCAL, DaskCluster, check_dask
from ...batch.executors import TaskExecutor, Work, Workers, gpus_for
from ...batch.image_run import check_task
from ...batch.image_task import ImageTask, Report
from ...batch.running import Plan, Underway, run_batch
from ..console import ProgressBar, ProgressLines
from .images import NO_REGIONS, say_first


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Where the work of a batch is done: in this process, in others, or in a cluster."""

    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Processes on this machine; each loads the model and needs its memory. "
            "(default: 1)",
            show_default=False,
        ),
    ] = None
    dask: Annotated[
        str | None,
        typer.Option(
            help="Let Dask do the work: local (with --workers processes on this machine), or the "
            "address of a scheduler, such as tcp://host:8786, whose workers reach the same files."
        ),
    ] = None

    @property
    def is_here(self) -> bool:
        """Whether the work is done on this machine."""
        return self.dask in (None, LOCAL)

    def check(self) -> None:
        """Refuse options that do not fit each other, or a cluster that cannot be used."""
        if self.dask is not None:
            check_dask(self.dask)
        if self.workers is not None and not self.is_here:
            raise InputError(
                f"--workers are processes of this machine; the cluster at {self.dask} has its own. "
                "Leave one of both options out."
            )

    def executor(self, tasks: Sequence[ImageTask]) -> TaskExecutor:
        """Return what does the work."""
        count = min(self.workers or 1, len(tasks))
        device = tasks[0].settings.device if tasks else "cpu"
        if tasks and self.dask is not None:
            return DaskCluster(self.dask, count, device=device)
        return Workers(count, gpus_for(device)) if count > 1 else Workers()


def problems_of(work: Plan, executor: TaskExecutor) -> tuple[dict[str, str], set[str]]:
    """Read all images and regions; return by name why some cannot be run, and those left out.

    Those without regions are left out, unless none has any: data sets have some on purpose.
    """
    reports: dict[str, Report] = {}

    def keep(report: Report, _: BatchProgress) -> None:
        reports[report.name] = report

    follow(work.tasks, executor, check_task, keep, title="Checked")
    in_order = [reports[task.name] for task in work.tasks]
    say_first([note for report in in_order for note in report.notes])
    failed = [report for report in in_order if report.problem]
    bare = dict.fromkeys(work.bare, NO_REGIONS)
    bare |= {report.name: report.problem for report in failed if report.bare}
    problems = {report.name: report.problem for report in failed if not report.bare}
    if len(bare) == len(work.tasks) + len(work.bare) + len(work.done):
        return bare, set()
    say_first([f"{name} is left out: {why}" for name, why in bare.items()])
    return problems, set(bare)


def follow(
    tasks: Sequence[ImageTask],
    executor: TaskExecutor,
    work: Work,
    on_report: Callable[[Report, BatchProgress], object],
    *,
    title: str = "Images",
) -> None:
    """Do tasks and show how far they are; ``on_report`` is called with each one that is done."""
    with BatchProgress(len(tasks), title) as progress:
        for news in run_batch(tasks, executor, work):
            if isinstance(news, Underway):
                progress.show(news)
            else:
                progress.done += 1
                on_report(news, progress)
                progress.show(Underway(executor.underway()))


class BatchProgress:
    """A bar for all images and one for each that was begun; lines where there is no terminal."""

    def __init__(self, total: int, title: str) -> None:
        self.done = 0
        self._total, self._title = total, title
        self._bar = ProgressBar(remaining=True)
        self._lines = ProgressLines()

    def __enter__(self) -> Self:
        self._bar.show(self._text, 0, self._total)
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    @property
    def _text(self) -> str:
        return f"{self._title}: {self.done} of {self._total}"

    def show(self, news: Underway) -> None:
        """Show what is done at the moment."""
        done = self.done + sum(news.shares.values())
        self._bar.show(self._text, done, self._total)
        self._bar.show_parts(news.shares)
        self.say(news.note)
        self._lines.show(self._text, done, self._total)

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._bar.say_note(text)
