"""The command ``batch``: many images, one after the other or several at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...base.errors import InputError
from ...base.locks import hold
from ...batch.cluster import LOCAL
from ...batch.executors import InThisProcess
from ...batch.image_run import check_model, run_task
from ...batch.image_task import DATA_SET, ImageTask
from ...batch.leftovers import check_removal, remove
from ...batch.project import Project, captions_of, check_words, project_file, read_project
from ...batch.running import (
    FAILED,
    Plan,
    add_failed,
    check_out,
    listed,
    plan,
    write_failed,
)
from ...results.export.catalogue import FORMATS
from ..captions.banks import CaptionSource
from ..console import INTERRUPTED, say
from ..loading import load
from ..options import split_names, template_option, with_settings
from .checking import problems_of
from .executing import Dask, WorkerCount, check_workers, executor_of
from .images import (
    CaptionColumn,
    Captions,
    Images,
    Labels,
    Positions,
    RegionFiles,
    Table,
    counted,
    pairs_of,
    project_images,
)
from .progress import BatchProgress, follow

if TYPE_CHECKING:
    from ...batch.executors import TaskExecutor, Work
    from ...batch.image_task import Report

INCOMPLETE: Final = 1  # exit code if images failed with --skip-bad, so that make notices


@with_settings(
    *("model", "method", "inversion", "input", "window", "planes", "units", "labels"),
    "uncertainty",
    only_chosen=True,
)
def batch_command(
    changes: dict[str, Any],
    place: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PROJECT]", help="Project (see project new), unless there are --images."
        ),
    ] = None,
    images: Images = None,
    regions: RegionFiles = None,
    table: Table = None,
    positions: Positions = False,
    labels: Labels = None,
    template: Annotated[list[str] | None, template_option("those of the project")] = None,
    captions: Captions = None,
    caption_column: CaptionColumn = None,
    out: Annotated[
        Path,
        typer.Option(help="Folder for the results; a stopped batch in it continues."),
    ] = Path("maskinversion_batch"),
    formats: Annotated[
        str,
        typer.Option(
            "--format",
            help="What to write for each image besides its archive (npz) and the table of all, "
            f"separated by commas: {', '.join(FORMATS)}.",
        ),
    ] = "npz",
    workers: WorkerCount = None,
    dask: Dask = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help=f"Continue without images that fail; {FAILED} lists them, and the exit code is 1.",
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            help="Compute outdated images again (other settings or files); remove results of "
            "images that are not listed any more."
        ),
    ] = False,
) -> None:
    """Label many images: an archive for each, and one table of all (a Parquet data set)."""
    check_workers(workers, dask)
    project, folder = _project(place, images, regions, table, positions=positions)
    if place is not None and labels is None and not template:
        check_words(project, project_file(place))
    words: dict[str, Any] = {}
    if labels is not None:
        is_file = os.path.isfile(labels)  # noqa: PTH113 - long texts are no path
        words["labels"] = str(Path(labels).absolute()) if is_file else labels
    if template:
        words["templates"] = tuple(template)
    project = Project(**{**dict(project), **words})
    file, column = captions, caption_column
    if captions is None:
        file, column = captions_of(project, folder), column or project.caption_column
    source = None if file is None else CaptionSource(file, column=column)
    _held = hold(out)  # until this function returns
    look = partial(
        plan,
        project,
        folder,
        out,
        formats=split_names(formats),
        changes=changes,
        captions="" if source is None else source.sha256,
    )
    work = look()
    _check_results(work, out, overwrite=overwrite)
    inputs = [path for path in (place and project_file(place), table, file) if path]
    inputs += project.files(folder)
    check_out(work.tasks, out, overwrite=overwrite, inputs=inputs)
    try:
        with executor_of(workers, dask, work.tasks) as executor:
            if executor.about:
                say(executor.about)
            problems = _check(work, executor, skip_bad=skip_bad)
            tasks = [task for task in work.tasks if task.name not in problems]
            _say_before(work, out)
            if work.others:
                remove(out, work.others)
                names = listed(work.others)
                say(f"Removed the results of images that are not in this batch: {names}.")
            write_failed(problems, out)
            if tasks:
                here = dask in (None, LOCAL)
                problems |= _run(tasks, executor, source, here=here, skip_bad=skip_bad, out=out)
    except KeyboardInterrupt:
        # Images that were being written when it came are complete by now.
        finished = len(look().done) - len(work.done)
        say(f"Stopped: {_kept(finished, work.tasks, out)}; run the same command to continue.")
        raise typer.Exit(INTERRUPTED) from None
    if problems:
        say(f"{counted(len(problems))} failed; {out / FAILED} says why.")
    if older := [name for name in work.stale if name in problems]:
        say(f"Their older results stay: {listed(older)}.")
    say(f"Wrote {counted(len(tasks) - len(problems.keys() & {t.name for t in tasks}))} in {out}")
    say(f"The table of all images: {out / DATA_SET}")
    write_failed(problems, out)
    if problems:
        raise typer.Exit(INCOMPLETE)


def _say_before(work: Plan, out: Path) -> None:
    """Say what is kept and what is computed again."""
    if work.done:
        say(f"{counted(len(work.done))} of {out} {'is' if len(work.done) == 1 else 'are'} kept.")
    if work.stale:
        say(f"Computed again: {work.stale_text}.")
    if work.damaged:
        say(
            f"Computed again, since files of their results changed or are gone: "
            f"{listed(work.damaged)}."
        )


def _check_results(work: Plan, out: Path, *, overwrite: bool) -> None:
    """Refuse results in the folder that would mix with those of this batch."""
    if overwrite:
        check_removal(out, work.others)
        return
    if work.stale:
        raise InputError(
            f"{out} is of other work: {work.stale_text}. --overwrite computes only "
            f"{'this one' if len(work.stale) == 1 else 'these'} again, and what is new; or choose "
            "another --out."
        )
    if work.others:
        raise InputError(
            f"{out} has results of {counted(len(work.others))} that this batch does not have: "
            f"{listed(work.others)}. --overwrite removes these results; or choose another --out."
        )


def _project(
    place: Path | None,
    images: str | None,
    regions: str | None,
    table: Path | None,
    *,
    positions: bool,
) -> tuple[Project, Path]:
    if place is None:
        pairs = pairs_of(images, regions, table, positions=positions)
        if table is None and not any(one.regions for one in pairs.pairs):
            raise InputError(
                "Name the regions of the images by --regions, such as --regions masks."
            )
        here = Path.cwd()
        return Project(images=tuple(project_images(pairs, here))), here
    if images is not None or regions is not None or table is not None or positions:
        raise InputError("Name a project or images, not both; 'project add' adds images to it.")
    return read_project(place), project_file(place).parent


def _check(work: Plan, executor: TaskExecutor, *, skip_bad: bool) -> dict[str, str]:
    """Say which images cannot be run; return why."""
    problems = problems_of(work, executor)
    for name, problem in problems.items():
        say(f"{name}: {problem}")
    if problems and not skip_bad:
        raise InputError(
            f"{counted(len(problems))} cannot be run; correct what is said above, or go on without "
            "them by --skip-bad."
        )
    return problems


def _run(
    tasks: Sequence[ImageTask],
    executor: TaskExecutor,
    captions: CaptionSource | None,
    *,
    here: bool,
    skip_bad: bool,
    out: Path,
) -> dict[str, str]:
    """Run images; return why some failed."""
    settings = tasks[0].settings
    work: Work = run_task
    if here or captions is not None:
        # Downloaded once, under a progress bar, and refused before any work.
        model = load(settings.model, settings.architecture, settings.device)
        if captions is not None:
            bank = captions.bank(model).folder
            tasks = [replace(task, bank=bank) for task in tasks]
        if isinstance(executor, InThisProcess):
            work = partial(run_task, model=model)
        del model
    else:
        _check_model(tasks[0], executor)
    problems: dict[str, str] = {}
    finished: list[str] = []

    def keep(report: Report, progress: BatchProgress) -> None:
        if report.is_disk_full:
            kept = _kept(len(finished), tasks, out)
            raise InputError(
                f"{report.problem} {kept}; with more space, run the same command to continue."
            )
        if not report.problem:
            finished.append(report.name)
        else:
            _refuse(report, skip_bad=skip_bad)
            problems[report.name] = report.problem
            add_failed(report.name, report.problem, out)
            progress.say(f"{report.name}: {report.problem}")

    follow(tasks, executor, work, keep)
    return problems


def _kept(finished: int, tasks: Sequence[ImageTask], out: Path) -> str:
    return f"{finished} of {counted(len(tasks))} are finished and kept in {out}"


def _check_model(task: ImageTask, executor: TaskExecutor) -> None:
    """Refuse a model that workers elsewhere cannot load."""

    def keep(report: Report, _: BatchProgress) -> None:
        if report.problem:
            raise InputError(f"The model cannot be loaded: {report.problem}")

    follow([task], executor, check_model, keep, title="Models")


def _refuse(report: Report, *, skip_bad: bool) -> None:
    if skip_bad:
        return
    text = f"{report.name}: {report.problem} Finished images are kept; --skip-bad goes on without."
    raise RuntimeError(text) if report.internal else InputError(text)
