"""Options of many images: which, with which regions, where the work is done, how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Self

import typer

from ..base import wording
from ..base.errors import InputError
from ..batch.batch_model_sharing import Here
from ..batch.batch_running import Plan, Underway, run_batch
from ..batch.cluster import LOCAL, DaskCluster, check_dask
from ..batch.executors import TaskExecutor, Work, Workers, gpus_for
from ..batch.image_run import check_task
from ..batch.image_task import ImageTask, Report
from ..batch.pairing import Pairs, pair, read_table
from .console import ProgressBar, say

ProjectPlace = Annotated[
    Path, typer.Argument(help="Project: a folder with project.yaml, or a file of another name.")
]
_SAID: Final = 5  # lines in full
NO_REGIONS: Final = "it has no regions; add them by --regions, or 'project add' with --regions."


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyImages:
    """Images and their regions: by pattern, or by a table."""

    images: Annotated[
        str | None,
        typer.Option(help='Images: a folder, or a pattern in quotes, such as "images/*.png".'),
    ] = None
    regions: Annotated[
        str | None,
        typer.Option(
            help="Regions of these images: a folder or pattern of label images or annotations "
            "(GeoJSON, VOC, ...) whose names begin or end with the images', "
            "'masks/{name}_mask.png', or one file about all images, such as COCO (default: the "
            "labels in OME-Zarr images, if they have any).",
        ),
    ] = None
    table: Annotated[
        Path | None,
        typer.Option(
            help="CSV file with the columns image, regions, and if need be name and series (an "
            "image's number in a file with several), instead of both options."
        ),
    ] = None
    positions: Annotated[
        bool,
        typer.Option(
            "--positions",
            help="Take each image of a file with several (positions, scenes), not only the first.",
        ),
    ] = False

    @property
    def are_named(self) -> bool:
        """Whether any of the options is given."""
        return self.positions or {self.images, self.regions, self.table} != {None}

    def pairs(self) -> Pairs:
        """Return what the options name, and say what was left out."""
        images = self.images
        regions = self.regions
        table = self.table
        if (images is None) == (table is None) or (table is not None and regions is not None):
            raise InputError("Name images by --images and --regions, or both by --table.")
        if table is not None and self.positions:
            raise InputError("--positions is about --images; a table has a column series for that.")
        if table is not None:
            pairs = read_table(table)
        else:
            pairs = pair(str(images), regions, positions=self.positions)
        say_first(pairs.notes)
        return pairs


def say_first(notes: Sequence[str]) -> None:
    """Say lines of one kind; only how many there are of those that follow the first few."""
    for note in notes[:_SAID]:
        say(note)
    if len(notes) > _SAID:
        say(f"And {len(notes) - _SAID} more lines like these.")


def counted(count: int) -> str:
    """Return a number of images in words."""
    return wording.counted(count, "image")


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
            check_dask()
        if self.workers is not None and not self.is_here:
            raise InputError(
                f"--workers are processes of this machine; the cluster at {self.dask} has its own. "
                "Leave one of both options out."
            )

    def executor(self, tasks: Sequence[ImageTask]) -> TaskExecutor:
        """Return what does the work."""
        count = min(self.workers or 1, len(tasks))
        device = "cpu"
        if tasks:
            device = tasks[0].settings.device
        if tasks and self.dask is not None:
            return DaskCluster(self.dask, count, device=device)
        if count > 1:
            return Workers(count, gpus_for(device))
        return Here()


def problems_of(work: Plan, executor: TaskExecutor) -> tuple[dict[str, str], set[str]]:
    """Read all images and regions; return by name why some cannot be run, and those left out.

    Those without regions are left out, unless none has any: data sets have some on purpose.
    """
    reports: dict[str, Report] = {}

    def keep(report: Report, _: BatchProgress) -> None:
        reports[report.name] = report

    follow(work.tasks, executor, check_task, keep, title="Checked")

    notes: list[str] = []
    bare = dict.fromkeys(work.bare, NO_REGIONS)
    problems = {}
    for task in work.tasks:
        report = reports[task.name]
        notes += report.notes
        if report.problem and report.bare:
            bare[report.name] = report.problem
        elif report.problem:
            problems[report.name] = report.problem
    say_first(notes)
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
    """A bar for all images and one for each that was begun."""

    def __init__(self, total: int, title: str) -> None:
        self.done = 0
        self._total = total
        self._title = title
        self._bar = ProgressBar(remaining=True)

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

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._bar.say_note(text)
