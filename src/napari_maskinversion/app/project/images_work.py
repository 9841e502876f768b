"""Work on the images of a project outside the GUI thread. No Qt, no napari.

Nothing here imports torch, pandas or pyarrow before its work begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...base.errors import Cancelled, MaskInversionError
from ...base.locks import hold
from ...base.progress import listening
from ...base.wording import counted, one_line
from ...batch.batch_outcome import BatchOutcome
from ...batch.opened import OpenProject
from ...batch.project_decisions import keep_computed, summaries
from ...batch.project_index import ProjectIndex
from ...review.stored_images import Summary
from ..requests.preparing import check_on_disk
from ..work.driver import Job, check_stopped, show
from ..work.model_store import ModelStore

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ...batch.image_task import ImageTask
    from ...engine.models.backbone import Backbone
    from .project_opening import OpenedImage

SIDE: Final = 36  # pixels of a small picture
_NOT_ADDED: Final = "it was computed, but"
_STOPPED: Final = "not added to the library when you stopped"
_NAMELESS: Final = "has no names of regions"


class About(NamedTuple):
    """What is known of an image by now; no summary once it has to be counted again."""

    name: str
    summary: Summary | None = None
    picture: npt.NDArray[np.uint8] | None = None  # Pixels (h, w, 3)


@dataclass(slots=True)
class Suggested(BatchOutcome):
    """How the work on all images ended."""

    planned: int = 0  # Images that had to be computed
    stopped: bool = False

    @property
    def left_out(self) -> dict[str, str]:
        """Why images have no suggestions, or are missing in the library, by name."""
        not_added = {name: f"{_NOT_ADDED} {why}" for name, why in self.not_added.items()}
        return {**self.problems, **self.bare, **not_added}

    @property
    def text(self) -> str:
        """One line for the user."""
        if not self.planned:
            return "All images with regions have suggestions."
        text = f"{self.computed:,} of {counted(self.planned, 'image')} computed."
        if self.stopped:
            text += " Press Suggest for all to continue."
        if self.disk_full:
            why = self.disk_full.rstrip(".")
            text += f" {why}. Free some space, then press Suggest for all to continue."
        left_out = self.left_out
        if left_out:
            name, why = next(iter(left_out.items()))
            text += f" {name} was left out: {why.rstrip('.')}."
        if len(left_out) > 1:
            text += f" And {len(left_out) - 1} more."
        return text


def load_model(project: OpenProject, device: str, store: ModelStore) -> Backbone:
    """Return the model of a project."""
    check_on_disk(project.settings.model)
    return store.load(project.settings.model, device)


def open_work(
    project: OpenProject, name: str, compute: Callable[[], Backbone] | None = None
) -> OpenedImage:
    """Read an image that the user wants to see, or may want: computed first, if it has words."""
    from ...batch.image_run import run_task
    from .project_opening import is_computed, open_project_image

    problem = ""
    try:
        task = None if compute is None else project.task(name)
        if compute is not None and task is not None and not is_computed(task):
            _held = hold(project.out)
            problem = run_task(task, model=compute()).problem
            problem = problem or _keep(project, name)
    except Cancelled:
        raise
    except MaskInversionError as error:  # it can still be looked at
        problem = one_line(error)
    opened = open_project_image(project, name)
    if problem and _NAMELESS not in problem:
        opened = replace(opened, problem=problem)
    return opened


def _keep(project: OpenProject, name: str) -> str:
    """Keep a computed image in the index and the library; return why the library lacks it."""
    _, problem = keep_computed(project, name)
    return f"{_NOT_ADDED} {problem}" if problem else ""


def list_work(project: OpenProject, names: Sequence[str]) -> None:
    """Read what the list shows of images; a broken one is shown as such."""
    from .project_opening import count_regions, thumbnail

    with listening(lambda _: check_stopped()):  # the list shows images, no steps
        index = ProjectIndex.fresh(project, names)
    indexed = summaries(index, names)
    for name in names:
        picture: npt.NDArray[np.uint8] | None = None
        summary = indexed[name]
        try:
            picture = thumbnail(project.path(name), project.settings_of(name).series, SIDE)
            if summary.regions is None and not summary.problem:
                summary = Summary(regions=count_regions(project, name))
        except (MaskInversionError, OSError) as error:
            summary = Summary(problem=one_line(error))
        show(About(name, summary, picture))


def suggest_work(project: OpenProject, device: str, store: ModelStore) -> Suggested:
    """Compute all images that have regions and no results; goes on where it was stopped."""
    from ...batch.batch_model_sharing import RunTasks
    from ...batch.batch_running import check_out, plan
    from .project_opening import is_computed

    outcome = Suggested(project)
    show(Job("Looking for images to compute ..."))
    _held = hold(project.out)  # until this function returns
    planned = plan(project).tasks
    tasks = [task for task in planned if not is_computed(task)]
    check_out(tasks, project.out, overwrite=False)
    outcome.planned = len(tasks)
    if not tasks:
        return outcome
    with listening(_show_loading):
        work = RunTasks(load_model(project, device, store))
    reported: list[str] = []
    try:
        with listening(partial(_show_step, tasks, reported)):
            for report in work.all(tasks):
                check_stopped()
                reported.append(report.name)
                try:
                    outcome.take(report)
                except Cancelled:  # while it waited for the library
                    outcome.not_added[report.name] = _STOPPED
                    raise
                if outcome.disk_full:  # for the other images, too
                    break
                show(About(report.name))
    except Cancelled:
        outcome.stopped = True
    return outcome


def _show_loading(news: object) -> None:
    if isinstance(news, str):
        show(Job(news))
    else:
        check_stopped()


def _show_step(tasks: Sequence[ImageTask], reported: Sequence[str], progress: object) -> None:
    if text := getattr(progress, "text", ""):
        done = min(len(reported), len(tasks) - 1)
        share = (done + (getattr(progress, "fraction", None) or 0.0)) / len(tasks)
        where = f"Image {done + 1:,} of {len(tasks):,}: {tasks[done].name}, {text}"
        show(partial(Job, where, share))
    else:
        check_stopped()


def export_work(project: OpenProject, out: Path, formats: Sequence[str], **options: Any) -> str:
    """Export all images; return what was written."""
    from ...batch.exporting import export_steps

    total = max(len(project.by_name), 1)
    text = ""
    for number, exported in export_steps(project, out, formats, **options):
        show(partial(Job, f"Exporting image {number:,} of {total:,}", number / total))
        text = exported.text
    return f"Exported {text}"
