"""The run of one image of a batch: read, invert, write; nothing of it needs the other images."""

from __future__ import annotations

import errno
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from threading import Lock
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ..base.atomic_files import together
from ..base.errors import Cancelled, InputError, MaskInversionError, NotEnoughMemoryError
from ..base.identity import identify_image
from ..base.reading import is_address
from ..language.captions.bank import CaptionBank, open_bank
from ..language.labels.vocabulary import Vocabulary
from ..pipeline.inputs import Inputs, open_inputs, origin, vocabulary_in
from ..pipeline.run import check_tasks, run_planes
from ..regions.annotations.annotation import Annotations
from ..regions.annotations.reading import AnnotationFile, open_annotations, read_annotations
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle, compress_masks
from ..results.export.catalogue import FORMATS, write_results
from ..results.export.table_parquet import write_parquet
from .addresses import address_of, exists, here
from .fingerprint import Fingerprint
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
from .leftovers import delete
from .project import with_colors

PAUSES: Final = (0.5, 4.0)  # seconds before an image is tried once more
_LASTING: Final = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
_OPENING, _LOADING = Lock(), Lock()
_FULL: Final = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
Outcome = TypeVar("Outcome")

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone


def open_task(
    task: ImageTask, on_note: Callable[[str], object] = lambda _: None
) -> tuple[Inputs, Vocabulary | None]:
    """Open the inputs of a task, and refuse what cannot be run on; loads no model.

    Without labels and names there is no vocabulary: the regions get captions alone. ``on_note`` is
    called as by `open_inputs`.
    """
    inputs = open_inputs(task.image, task.regions, task.settings, on_note, _read)
    try:
        check_tasks(inputs.tasks)
        vocabulary = task.vocabulary
        if vocabulary is None:
            threshold = task.settings.threshold
            vocabulary = vocabulary_in(task.regions, inputs.names, task.templates, threshold)
            if vocabulary is not None:
                vocabulary = with_colors(vocabulary, task.colors)
            elif not task.captions:
                raise InputError(
                    f"{task.regions} has no names of regions; name labels: batch --labels dog,cat, "
                    "or labels: dog,cat in project.yaml."
                )
    except BaseException:
        inputs.stack.close()
        raise
    return inputs, vocabulary


def _read(path: Path, shape: tuple[int, int], **about: Any) -> Annotations:
    """Read annotations as `read_annotations` does; a file about many images is parsed once."""
    try:
        now = path.stat()
    except OSError:
        return read_annotations(path, shape, **about)  # refuses it
    with _OPENING:
        opened = _opened(path, now.st_size, now.st_mtime_ns)
    return opened.read(shape, **about)


@lru_cache(maxsize=1)
def _opened(path: Path, *_: int) -> AnnotationFile:
    return open_annotations(path)


def problem_of(task: ImageTask, on_note: Callable[[str], object] = lambda _: None) -> str:
    """Return one line about what a run of the task would refuse; "" if there is nothing.

    ``on_note`` is called with a line about each choice that the user may not know of, and about
    regions that may be of another image or were changed.
    """
    try:
        if away := [path for path in (task.image, task.regions) if is_address(path)]:
            gone = [path for path in away if not exists(path)]  # copied once, for the work
            return f"There is no file at {address_of(gone[0])}." if gone else ""
        inputs, _ = open_task(task, on_note)
        if inputs.notes:
            on_note(f"{task.name}: {inputs.notes}")
    except (MaskInversionError, OSError) as error:
        return _one_line(error, task)
    inputs.stack.close()
    return ""


def check_task(task: ImageTask) -> Report:
    """Return a report with what a run of the task would refuse; computes nothing."""
    notes: list[str] = []
    problem = problem_of(task, notes.append)
    return Report(name=task.name, problem=problem, notes=tuple(notes))


def check_model(task: ImageTask) -> Report:
    """Load the model of a task; return a report with why it cannot be loaded."""
    try:
        _loaded(task.model, task.settings.architecture, task.settings.device)
    except (MaskInversionError, OSError) as error:
        return Report(name=task.name, problem=_one_line(error, task))
    return Report(name=task.name)


def run_task(task: ImageTask, *, model: Backbone | None = None) -> Report:
    """Run an image and write its results; they appear as a whole or not at all.

    What disk, network or memory refused is tried again: they may be back; a full disk will not.
    Results that are there already are kept.
    """
    begun = perf_counter()
    try:
        regions = _run(task, model)
    except Cancelled:
        return Report(name=task.name, stopped=True)
    except Exception as error:
        return Report(
            name=task.name,
            problem=_one_line(error, task),
            internal=not isinstance(error, MaskInversionError | OSError | MemoryError),
            is_disk_full=is_disk_full(error),
        )
    return Report(
        name=task.name,
        regions=regions or 0,
        seconds=perf_counter() - begun,
        kept=regions is None,
    )


def _run(task: ImageTask, model: Backbone | None) -> int | None:
    """Return the number of regions; None if their results were there already."""
    if is_marked(task) and not is_damaged(task):
        different = differences(task)
        if not different:
            return None
        if different == MORE_FORMATS:
            return _add_formats(task)
    bundle, finished = _patiently(lambda: _compute(task, model))
    # What was computed is kept while the disk is busy.
    written = _patiently(lambda: store(task, bundle, finished))
    return len(bundle.results) if written else None


def _patiently(work: Callable[[], Outcome]) -> Outcome:
    """Do a part of the work, once more after each pause where that may help."""
    for pause in PAUSES:
        try:
            return work()
        except Exception as error:
            if not is_transient(error):
                raise
        sleep(pause)
    return work()


def _compute(task: ImageTask, model: Backbone | None) -> tuple[Bundle, Finished]:
    finished = Finished.of(task)
    with here(task) as task:
        bundle = _inverted(task, model)
    return bundle, finished


def _inverted(task: ImageTask, model: Backbone | None) -> Bundle:
    settings = task.settings
    inputs, vocabulary = open_task(task)
    with inputs.stack:
        source = origin(task.image, task.regions, settings, inputs.stack, inputs.coco_numbers)
        identity = asdict(identify_image(task.image.name, inputs.stack.levels[0]))
        if model is None:
            model = _loaded(task.model, settings.architecture, settings.device)
        bank = None if task.bank is None else _bank(task.bank)
        units = inputs.units
        results = run_planes(model, inputs.tasks, vocabulary, settings, units=units, bank=bank)
    masks = compress_masks(inputs.tasks)
    return Bundle(results=results, masks=masks, source=source, image=identity)


def store(task: ImageTask, bundle: Bundle, finished: Finished) -> bool:
    """Write the results of an image with the mark that it is done."""
    for folder in (task.part.parent, task.archive):
        folder.mkdir(parents=True, exist_ok=True)
    if _is_there(task, finished):
        return False  # a worker that was thought dead has been faster
    # The mark that the image is done comes last: what is killed before it is done again.
    # It is written beside the archive: each write looks through its folder, and that of all parts
    # may have a million files.
    part = task.archive / task.part.name
    write_parquet(bundle, part, image=task.name)
    part.replace(task.part)
    earlier = _earlier_files(task)
    with together(task.archive) as files:
        write_results(bundle, task.archive, task.formats, overwrite=True)
        finished = finished.with_files(task.part, files.place)
        write_finished(finished, task.archive)
    _remove_old(earlier, finished, task.archive)
    return True


def _earlier_files(task: ImageTask) -> list[Fingerprint]:
    try:
        return read_finished(task.archive).files
    except InputError:
        return []


def _remove_old(earlier: Iterable[Fingerprint], finished: Finished, folder: Path) -> None:
    """Delete files of earlier results that the new ones lack, unless somebody changed them."""
    new = {file.name for file in finished.files}
    for file in earlier:
        path = folder / file.name
        if file.name not in new and file.fits(path):
            with suppress(OSError):
                delete(path)


def _is_there(task: ImageTask, finished: Finished) -> bool:
    """Return whether results of the same work are there, whole."""
    try:
        same = is_marked(task) and read_finished(task.archive).is_of(finished)
    except InputError:
        return False
    return same and not is_damaged(task)


def _add_formats(task: ImageTask) -> int:
    """Write the formats that an image lacks from its archive."""
    kept = read_finished(task.archive)
    lacking = [name for name in task.formats if name not in kept.formats]
    bundle = open_archive(task.archive / FORMATS[ALWAYS].file)
    with together(task.archive) as files:
        write_results(bundle, task.archive, lacking, overwrite=True)
        write_finished(kept.with_more(lacking, files.place), task.archive)
    return len(bundle.results)


def _loaded(name: str, architecture: str | None, device: str) -> Backbone:
    """Load a model once for all images of this process, also if several threads ask for it."""
    with _LOADING:
        return _load(name, architecture, device)


@lru_cache(maxsize=1)
def _load(name: str, architecture: str | None, device: str) -> Backbone:
    from ..engine.models.loading import load_where_it_fits

    return load_where_it_fits(name, device=device, architecture=architecture).model


@lru_cache(maxsize=1)
def _bank(folder: Path) -> CaptionBank:
    """Open a caption bank once for all images of this process."""
    return open_bank(folder)


def is_transient(error: BaseException | None) -> bool:
    """Return whether what caused an error may be gone soon; our errors have it in their context."""
    if is_disk_full(error):
        return False
    while error is not None:
        if isinstance(error, MemoryError | NotEnoughMemoryError | ConnectionError | TimeoutError):
            return True
        # Without a number it is about content, such as an image that Pillow cannot read.
        if isinstance(error, OSError) and error.errno and not isinstance(error, _LASTING):
            return True
        error = error.__cause__ or error.__context__
    return False


def is_disk_full(error: BaseException | None) -> bool:
    """Return whether a full disk, or a full share of one, is the cause of an error."""
    return _has_number(error, _FULL)


def _has_number(error: BaseException | None, numbers: Container[int | None]) -> bool:
    """Return whether the operating system gave one of these numbers as the cause of an error."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in numbers:
            return True
        error = error.__cause__ or error.__context__
    return False


def _one_line(error: BaseException, task: ImageTask) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, MemoryError):
        return "there is not enough memory for it; use fewer --workers, or a machine with more."
    if isinstance(error, OSError):
        text = f"{error.filename or task.image}: {error.strerror or error}"
    elif not isinstance(error, MaskInversionError):
        text = f"internal error ({type(error).__name__}: {text})"
    return text
