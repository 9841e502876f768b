"""The run of one image of a batch: read, invert, write; nothing of it needs the other images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..base.atomic_files import together
from ..base.errors import Cancelled, InputError, MaskInversionError
from ..base.identity import identify_image
from ..base.steps import drive
from ..language.labels.vocabulary import Vocabulary
from ..pipeline.inputs import Inputs, open_inputs, origin, vocabulary_in
from ..pipeline.run import check_tasks, run_planes
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle, compress_masks
from ..results.export.catalogue import FORMATS, write_results
from ..results.export.table_parquet import write_parquet
from .finished import (
    MORE_FORMATS,
    Finished,
    differences,
    is_damaged,
    is_marked,
    read_finished,
    write_finished,
)
from .image_task import ALWAYS, ImageTask, Report
from .project import with_colors

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone


def open_task(
    task: ImageTask, on_note: Callable[[str], object] = lambda _: None
) -> tuple[Inputs, Vocabulary]:
    """Open the inputs of a task, and refuse what cannot be run on; loads no model.

    ``on_note`` is called as by `open_inputs`.

    Raises
    ------
    MaskInversionError
        Names the file, and what is wrong with it.
    """
    inputs = open_inputs(task.image, task.regions, task.settings, on_note)
    try:
        check_tasks(inputs.tasks)
        vocabulary = task.vocabulary
        if vocabulary is None:
            threshold = task.settings.threshold
            vocabulary = vocabulary_in(task.regions, inputs.names, task.templates, threshold)
            if vocabulary is None:
                raise InputError(
                    f"{task.regions} has no names of regions; name labels: batch --labels dog,cat, "
                    "or labels: dog,cat in project.yaml."
                )
            vocabulary = with_colors(vocabulary, task.colors)
    except BaseException:
        inputs.stack.close()
        raise
    return inputs, vocabulary


def problem_of(task: ImageTask, on_note: Callable[[str], object] = lambda _: None) -> str:
    """Return one line about what a run of the task would refuse; "" if there is nothing.

    ``on_note`` is called with a line about each choice that the user may not know of.
    """
    try:
        inputs, _ = open_task(task, on_note)
    except (MaskInversionError, OSError) as error:
        return _one_line(error, task)
    inputs.stack.close()
    return ""


def run_task(
    task: ImageTask,
    *,
    model: Backbone | None = None,
    on_step: Callable[[Any], object] | None = None,
    attempts: int = 2,
) -> Report:
    """Run an image and write its results; they appear as a whole or not at all.

    What an `OSError` ended is tried once more: a disk or network may be back.

    Parameters
    ----------
    task : ImageTask
    model : Backbone, optional
        By default the settings' model, which this process loads once.
    on_step : callable, optional
        Called between two steps; raises `Cancelled` to stop.
    attempts : int
        How often an image is tried.
    """
    begun = perf_counter()
    try:
        regions = _run(task, model, on_step)
    except Cancelled:
        return Report(name=task.name, stopped=True)
    except Exception as error:
        if attempts > 1 and _is_transient(error):
            return run_task(task, model=model, on_step=on_step, attempts=attempts - 1)
        internal = not isinstance(error, MaskInversionError | OSError)
        return Report(name=task.name, problem=_one_line(error, task), internal=internal)
    return Report(name=task.name, regions=regions, seconds=perf_counter() - begun)


def _run(task: ImageTask, model: Backbone | None, on_step: Callable[[Any], object] | None) -> int:
    if is_marked(task) and differences(task) == MORE_FORMATS and not is_damaged(task):
        return _add_formats(task)
    settings = task.settings
    inputs, vocabulary = open_task(task)
    with inputs.stack:
        finished = Finished.of(task)
        source = origin(task.image, task.regions, settings, inputs.stack)
        identity = asdict(identify_image(task.image.name, inputs.stack.levels[0]))
        if model is None:
            model = _loaded(settings.model, settings.architecture, settings.device)
        work = run_planes(model, inputs.tasks, vocabulary, settings, units=inputs.units)
        results = drive(work, on_step)
    masks = compress_masks(inputs.tasks)
    bundle = Bundle(results=results, masks=masks, source=source, image=identity)
    store(task, bundle, finished)
    return len(results)


def store(task: ImageTask, bundle: Bundle, finished: Finished) -> None:
    """Write the results of an image with the mark that it is done.

    Parameters
    ----------
    task : ImageTask
    bundle : Bundle
    finished : Finished
        Made before the work: what the results were computed from.

    Raises
    ------
    InputError
        If they cannot be written; earlier results stay.
    """
    for folder in (task.part.parent, task.archive):
        folder.mkdir(parents=True, exist_ok=True)
    # The mark that the image is done comes last: what is killed before it is done again.
    write_parquet(bundle, task.part)
    with together(task.archive) as files:
        write_results(bundle, task.archive, task.formats, overwrite=True)
        write_finished(finished.with_files(task.part, files.place), task.archive)


def _add_formats(task: ImageTask) -> int:
    """Write the formats that an image lacks from its archive."""
    kept = read_finished(task.archive)
    lacking = [name for name in task.formats if name not in kept.formats]
    bundle = open_archive(task.archive / FORMATS[ALWAYS].file)
    with together(task.archive) as files:
        write_results(bundle, task.archive, lacking, overwrite=True)
        write_finished(kept.with_more(lacking, files.place), task.archive)
    return len(bundle.results)


@lru_cache(maxsize=1)
def _loaded(name: str, architecture: str | None, device: str) -> Backbone:
    """Load a model once for all images of this process."""
    from ..engine.models.loading import load_where_it_fits

    return load_where_it_fits(name, device=device, architecture=architecture).model


def _is_transient(error: BaseException | None) -> bool:
    """Return whether an error comes from the system; our errors hide it in their context."""
    while error is not None:
        if isinstance(error, OSError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _one_line(error: BaseException, task: ImageTask) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError):
        text = f"{error.filename or task.image}: {error.strerror or error}"
    elif not isinstance(error, MaskInversionError):
        text = f"internal error ({type(error).__name__}: {text})"
    return text
