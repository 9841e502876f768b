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
from ..batch.batch_running import FAILED, Plan, check_out, plan, write_failed
from ..batch.executors import TaskExecutor, Work
from ..batch.finished import check_removal, remove
from ..batch.image_run import check_model, run_task
from ..batch.image_task import DATA_SET, ImageTask, Report
from ..batch.opened import OpenProject
from ..batch.project import Project, project_file, project_images
from ..batch.project_decisions import keep_computed
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
    captions, column = words.captions, words.caption_column
    if captions is None:
        captions, column = project.captions, column or project.project.caption_column
    source = None if captions is None else CaptionSource(captions, column=column)
    _held = hold(out)  # until this function returns
    look = partial(plan, project, split_names(formats), "" if source is None else source.sha256)
    work = look()
    _check_results(work, out, overwrite=overwrite)
    inputs = [path for path in (place and project_file(place), many.table, captions) if path]
    inputs += project.project.files(project.folder)
    check_out(work.tasks, out, overwrite=overwrite, inputs=inputs)
    into = into or project.library
    check_library(into, out)
    try:
        with where.executor(work.tasks) as executor:
            if executor.about:
                say(executor.about)
            keeping = _Keeping(project)
            batch = _Batch(work, executor, source, keeping, out=out, skip_bad=skip_bad)
            batch.check()
            batch.say_before()
            if work.others:
                remove(out, work.others)
                names = listed(work.others)
                say(f"Removed the results of images that are not in this batch: {names}.")
            if into is not None:
                keeping.library = Library.open(into, create=True)
            batch.run(is_here=where.is_here)
    except KeyboardInterrupt:
        # Images that were being written when it came are complete by now.
        finished = len(look().done) - len(work.done)
        say(f"Stopped: {_kept(finished, work.tasks, out)}; run the same command to continue.")
        raise typer.Exit(INTERRUPTED) from None
    batch.say_after()
    if batch.problems or keeping.failed:
        raise typer.Exit(INCOMPLETE)


def _project(place: Path | None, many: ManyImages, words: Words) -> OpenProject:
    """Return what is to be run, with the words of the options."""
    labels, template = words.only_list, words.template
    if place is None:
        pairs, here = many.pairs().pairs, Path.cwd()
        if many.table is None and not any(one.regions for one in pairs):
            raise InputError(
                "Name the regions of the images by --regions, such as --regions masks."
            )
        opened = OpenProject(project_file(here), Project(images=project_images(pairs, here)))
    elif many.are_named:
        raise InputError("Name a project or images, not both; 'project add' adds images to it.")
    else:
        opened = OpenProject.read(place)
        if labels is None and not template:
            opened.check_words()
    changes: dict[str, Any] = {"templates": tuple(template)} if template else {}
    if labels is not None:
        is_file = os.path.isfile(labels)  # noqa: PTH113 - long texts are no path
        changes["labels"] = str(Path(labels).absolute()) if is_file else labels
        ranks = words.extended
        changes["classifier"] = None if ranks is None else str(ranks.absolute())
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
class _Keeping:
    """Adds images to index and library once they are computed, so that a killed batch did, too."""

    project: OpenProject
    library: Library | None = None
    count: int = 0
    failed: int = 0

    def add(self, name: str) -> str:
        """Add an image; return why it could not be added to the library."""
        count, problem = keep_computed(self.project, name, self.library)
        self.count += count
        self.failed += bool(problem)
        return f"{name} was {problem}" if problem else ""

    def forget(self, names: Iterable[str]) -> None:
        """Remove regions of images that have none any more from the library."""
        if self.library is None:
            return
        for name in names:
            series = self.project.settings_of(name).series or 0
            if count := self.library.forget(self.project.path(name), series=series):
                say(f"{name} has no regions any more: {count} removed from the library.")

    def say_after(self, kept: int) -> None:
        """Say what was added, and how images that were kept are."""
        if self.library is None:
            return
        say(added(self.library, self.count))
        if left := kept + self.failed:
            add = f"library add {self.library.folder} {self.project.out}"
            say(f"Not added: {counted(left)}, kept from before or named above; '{add}' adds all.")


@dataclass(slots=True)
class _Batch:
    """A batch that is carried out."""

    plan: Plan
    executor: TaskExecutor
    captions: CaptionSource | None
    keeping: _Keeping
    out: Path
    skip_bad: bool
    problems: dict[str, str] = field(default_factory=dict)  # Why images failed, by name
    bare: set[str] = field(default_factory=set)  # Names of images without regions
    finished: int = 0

    def check(self) -> None:
        """Say which images cannot be run."""
        problems, self.bare = problems_of(self.plan, self.executor)
        self.problems |= problems
        for name, problem in self.problems.items():
            say(f"{name}: {problem}")
        if self.problems and not self.skip_bad:
            raise InputError(
                f"{counted(len(self.problems))} cannot be run; correct what is said above, or go "
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
        write_failed(self.problems, self.out)
        self.keeping.forget(sorted(self.bare - set(self.plan.bare)))
        tasks = [one for one in self.plan.tasks if one.name not in {*self.problems, *self.bare}]
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

    def _keep(self, report: Report, progress: BatchProgress) -> None:
        if report.is_disk_full:
            kept = _kept(self.finished, self.plan.tasks, self.out)
            raise InputError(
                f"{report.problem} {kept}; with more space, run the same command to continue."
            )
        if not report.problem:
            self.finished += 1
            for note in report.notes:
                progress.say(f"{report.name}: {note}")
            if problem := self.keeping.add(report.name):
                progress.say(problem)
            return
        if report.bare:
            progress.say(f"{report.name} is left out: {report.problem}")
            return
        if not self.skip_bad:
            text = f"{report.name}: {report.problem} Finished images are kept; --skip-bad goes on "
            raise (RuntimeError if report.internal else InputError)(f"{text}without.")
        self.problems[report.name] = report.problem
        with suppress(OSError, InputError):  # it is said at the end
            write_failed(self.problems, self.out)  # now, since the batch may be killed
        progress.say(f"{report.name}: {report.problem}")

    def say_after(self) -> None:
        """Say what was written and what failed."""
        if self.problems:
            say(f"{counted(len(self.problems))} failed; {self.out / FAILED} says why.")
        if older := [name for name in self.plan.stale if name in self.problems]:
            say(f"Their older results stay: {listed(older)}.")
        say(f"Wrote {counted(self.finished)} in {self.out}")
        say(f"The table of all images: {self.out / DATA_SET}")
        self.keeping.say_after(len(self.plan.done))
        write_failed(self.problems, self.out)


def _check_model(report: Report, _: BatchProgress) -> None:
    """Refuse a model that workers elsewhere cannot load."""
    if report.problem:
        raise InputError(f"The model cannot be loaded: {report.problem}")
