"""The command ``batch``: many images, one after the other or several at once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ..base.errors import InputError
from ..base.locks import hold
from ..base.wording import listed
from ..batch.batch_model_sharing import RunTasks
from ..batch.batch_outcome import BatchOutcome
from ..batch.batch_running import FAILED, Plan, check_out, plan, write_failed
from ..batch.executors import TaskExecutor, Work
from ..batch.finished import check_removal, remove
from ..batch.image_run import check_model, run_task
from ..batch.image_task import DATA_SET, ImageTask, Report
from ..batch.opened import OpenProject
from ..batch.project import Project, project_file, project_images
from ..language.captions.source import CaptionSource
from ..library.library import Library
from ..results.export.catalogue import FORMATS
from ..results.settings import GROUPS
from .captions import Words, bank_of
from .console import INTERRUPTED, say
from .library import Into, added, check_library
from .many_images import BatchProgress, ManyImages, Where, counted, follow, problems_of
from .options import split_names, with_settings
from .run_options import load

INCOMPLETE: Final = 1  # exit code if images failed with --skip-bad, so that make notices


@with_settings(*GROUPS, only_chosen=True)
def batch_command(
    changes: dict[str, Any],
    many: ManyImages,
    words: Words,
    where: Where,
    place: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PROJECT]", help="Project (see project new), unless there are --images."
        ),
    ] = None,
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
    into: Into = None,
) -> None:
    """Label many images: an archive for each, and one table of all (a Parquet data set)."""
    where.check()
    project = replace(_project(place, many, words), results=out, changes=changes)
    captions = words.captions
    column = words.caption_column
    if captions is None:
        captions = project.captions
        column = column or project.project.caption_column
    if captions is None:
        source = None
    else:
        source = CaptionSource(captions, column=column)
    _held = hold(out)  # until this function returns
    look = partial(plan, project, split_names(formats), "" if source is None else source.sha256)
    work = look()
    _check_results(work, out, overwrite=overwrite)
    inputs = []
    for path in (place and project_file(place), many.table, captions):
        if path:
            inputs.append(path)
    inputs += project.project.files(project.folder)
    check_out(work.tasks, out, overwrite=overwrite, inputs=inputs)
    into = into or project.library
    check_library(into, out)
    try:
        with where.executor(work.tasks) as executor:
            if executor.about:
                say(executor.about)
            outcome = BatchOutcome(project)
            batch = _Batch(work, executor, source, outcome, out=out, skip_bad=skip_bad)
            batch.check()
            batch.say_before()
            if work.others:
                remove(out, work.others)
                names = listed(work.others)
                say(f"Removed the results of images that are not in this batch: {names}.")
            if into is not None:
                outcome.library = Library.open(into, create=True)
            batch.run(is_here=where.is_here)
    except KeyboardInterrupt:
        # Images that were being written when it came are complete by now.
        finished = len(look().done) - len(work.done)
        say(f"Stopped: {_kept(finished, work.tasks, out)}; run the same command to continue.")
        raise typer.Exit(INTERRUPTED) from None
    batch.say_after()
    if outcome.problems or outcome.not_added:
        raise typer.Exit(INCOMPLETE)


def _project(place: Path | None, many: ManyImages, words: Words) -> OpenProject:
    """Return what is to be run, with the words of the options."""
    labels = words.only_list
    template = words.template
    if place is None:
        pairs = many.pairs().pairs
        folder = Path.cwd()
        if many.table is None and not any(pair.regions for pair in pairs):
            raise InputError(
                "Name the regions of the images by --regions, such as --regions masks."
            )
        opened = OpenProject(project_file(folder), Project(images=project_images(pairs, folder)))
    elif many.are_named:
        raise InputError("Name a project or images, not both; 'project add' adds images to it.")
    else:
        opened = OpenProject.read(place)
        if labels is None and not template:
            opened.check_words()
    changes: dict[str, Any] = {}
    if template:
        changes = {"templates": tuple(template)}
    if labels is not None:
        is_file = os.path.isfile(labels)  # noqa: PTH113 - long texts are no path
        changes["labels"] = labels
        if is_file:
            changes["labels"] = str(Path(labels).absolute())
        ranks = words.extended
        if ranks is None:
            changes["classifier"] = None
        else:
            changes["classifier"] = str(ranks.absolute())
    return opened.with_project(opened.project.changed(**changes))


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


def _kept(finished: int, tasks: Sequence[ImageTask], out: Path) -> str:
    return f"{finished} of {counted(len(tasks))} are finished and kept in {out}"


@dataclass(slots=True)
class _Batch:
    """A batch that is carried out."""

    plan: Plan
    executor: TaskExecutor
    captions: CaptionSource | None
    outcome: BatchOutcome
    out: Path
    skip_bad: bool
    bare: set[str] = field(default_factory=set)  # Names of images without regions, by the check

    def check(self) -> None:
        """Say which images cannot be run."""
        problems, self.bare = problems_of(self.plan, self.executor)
        self.outcome.problems |= problems
        for name, problem in problems.items():
            say(f"{name}: {problem}")
        if problems and not self.skip_bad:
            raise InputError(
                f"{counted(len(problems))} cannot be run; correct what is said above, or go "
                "on without them by --skip-bad."
            )

    def say_before(self) -> None:
        """Say what is kept and what is computed again."""
        work = self.plan
        if work.done:
            is_ = "is" if len(work.done) == 1 else "are"
            say(f"{counted(len(work.done))} of {self.out} {is_} kept.")
        if work.stale:
            say(f"Computed again: {work.stale_text}.")
        if work.damaged:
            names = listed(work.damaged)
            say(f"Computed again, since files of their results changed or are gone: {names}.")

    def run(self, *, is_here: bool) -> None:
        """Run the images that can be run."""
        problems = self.outcome.problems
        write_failed(problems, self.out)
        self._forget(sorted(self.bare - set(self.plan.bare)))
        tasks = []
        for task in self.plan.tasks:
            if task.name not in {*problems, *self.bare}:
                tasks.append(task)
        if not tasks:
            return
        work: Work = run_task
        if is_here or self.captions is not None:
            # Downloaded once, under a progress bar, and refused before any work.
            model = load(tasks[0].settings)
            if self.captions is not None:
                bank = bank_of(self.captions, model).folder
                tasks = [replace(task, bank=bank) for task in tasks]
            if self.executor.is_here:
                work = RunTasks(model)
            del model
        else:
            follow([tasks[0]], self.executor, check_model, _check_model, title="Models")
        follow(tasks, self.executor, work, self._keep)

    def _forget(self, names: Iterable[str]) -> None:
        """Remove regions of images that have none any more from the library."""
        project = self.outcome.project
        library = self.outcome.library
        if library is None:
            return
        for name in names:
            series = project.settings_of(name).series or 0
            if count := library.forget(project.path(name), series=series):
                say(f"{name} has no regions any more: {count} removed from the library.")

    def _keep(self, report: Report, progress: BatchProgress) -> None:
        name = report.name
        outcome = self.outcome
        outcome.take(report)
        if outcome.disk_full:
            kept = _kept(outcome.computed, self.plan.tasks, self.out)
            raise InputError(
                f"{outcome.disk_full} {kept}; with more space, run the same command to continue."
            )
        if not report.problem:
            for note in report.notes:
                progress.say(f"{name}: {note}")
            if name in outcome.not_added:
                progress.say(f"{name} was {outcome.not_added[name]}")
            return
        if report.bare:
            progress.say(f"{name} is left out: {report.problem}")
            return
        if not self.skip_bad:
            text = f"{name}: {report.problem} Finished images are kept; --skip-bad goes on without."
            raise RuntimeError(text) if report.internal else InputError(text)
        with suppress(OSError, InputError):  # it is said at the end
            write_failed(outcome.problems, self.out)  # now, since the batch may be killed
        progress.say(f"{name}: {report.problem}")

    def say_after(self) -> None:
        """Say what was written and what failed."""
        problems = self.outcome.problems
        if problems:
            say(f"{counted(len(problems))} failed; {self.out / FAILED} says why.")
        if older := [name for name in self.plan.stale if name in problems]:
            say(f"Their older results stay: {listed(older)}.")
        say(f"Wrote {counted(self.outcome.computed)} in {self.out}")
        say(f"The table of all images: {self.out / DATA_SET}")
        self._say_added()
        write_failed(problems, self.out)

    def _say_added(self) -> None:
        """Say what the library took, and how images that were kept are added."""
        library = self.outcome.library
        if library is None:
            return
        say(added(library, self.outcome.added))
        if left := len(self.plan.done) + len(self.outcome.not_added):
            add = f"library add {library.folder} {self.outcome.project.out}"
            say(f"Not added: {counted(left)}, kept from before or named above; '{add}' adds all.")


def _check_model(report: Report, _: BatchProgress) -> None:
    """Refuse a model that workers elsewhere cannot load."""
    if report.problem:
        raise InputError(f"The model cannot be loaded: {report.problem}")
