"""The run of one image of a batch: read, invert, write; nothing of it needs the other images."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from ..base.atomic_files import together
from ..base.errors import (
    Cancelled,
    InputError,
    MaskInversionError,
    NoRegionsError,
    NotEnoughMemoryError,
)
from ..base.progress import wait
from ..base.reading import is_address
from ..base.wording import one_line
from ..images.plane_source import brightness_note
from ..language.captions.bank import CaptionBank, open_bank
from ..language.labels.vocabulary import Vocabulary
from ..pipeline.inputs import open_inputs, vocabulary_in
from ..pipeline.job import Job, open_job, run_job
from ..pipeline.run import check_tasks
from ..regions.annotations.annotation import Annotations
from ..regions.annotations.annotation_reading import (
    AnnotationFile,
    open_annotations,
    read_annotations,
)
from ..results.export.archive import open_archive
from ..results.export.bundle import Bundle
from ..results.export.catalogue import FORMATS, write_results
from ..results.export.table_export import write_parquet
from .addresses import address_of, exists, here
from .finished import (
    MORE_FORMATS,
    FileFingerprint,
    Finished,
    delete,
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

PAUSES: Final = (0.5, 4.0)  # seconds before an image is tried once more
_LASTING: Final = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
_OPENING = Lock()
_LOADING = Lock()
_FULL: Final = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def _words(task: ImageTask, names: Mapping[str, str]) -> Vocabulary | None:
    """Return the labels of a task, or the names in its file of regions; None for captions alone."""
    if task.vocabulary is not None:
        return task.vocabulary
    words = vocabulary_in(task.regions, names, task.templates, task.settings.threshold)
    if words is None and not task.captions:
        raise InputError(
            f"{task.regions} has no names of regions; name labels: batch --labels dog,cat, or "
            "labels: dog,cat in project.yaml."
        )
    if words is None:
        return None
    return with_colors(words, task.colors)


def read_regions(path: Path, shape: tuple[int, int], **about: Any) -> Annotations:
    """Read annotations as `read_annotations` does; a file about many images is parsed once."""
    try:
        status = path.stat()
    except OSError:
        return read_annotations(path, shape, **about)  # refuses it
    with _OPENING:
        opened = _opened(path, status.st_size, status.st_mtime_ns)
    return opened.read(shape, **about)


@lru_cache(maxsize=1)
def _opened(path: Path, *_: int) -> AnnotationFile:
    return open_annotations(path)


def check_task(task: ImageTask) -> Report:
    """Return a report with what a run of the task would refuse; computes nothing.

    Its notes are about choices that the user may not know of, and about regions that may be of
    another image or were changed.
    """
    notes: list[str] = []
    problem = ""
    bare = False
    try:
        # What lies elsewhere is copied once, for the work.
        away = [path for path in (task.image, task.regions) if is_address(path)]
        if gone := [path for path in away if not exists(path)]:
            problem = f"There is no file at {address_of(gone[0])}."
        elif not away:
            inputs = open_inputs(
                task.image, task.regions, task.settings, notes.append, read_regions
            )
            with inputs.stack:
                check_tasks(inputs.tasks)
                _words(task, inputs.names)
            notes += [f"{task.name}: {inputs.notes}"] if inputs.notes else []
    except (MaskInversionError, OSError) as error:
        problem = _one_line(error, task)
        bare = isinstance(error, NoRegionsError)
    return Report(name=task.name, problem=problem, bare=bare, notes=tuple(notes))


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
    attempt = _Attempt(task, model)
    try:
        for pause in PAUSES:
            try:
                return attempt.run()
            except Exception as error:
                if not is_transient(error):
                    return _failed(task, error)
                reason = _one_line(error, task).rstrip(".")
            wait(pause, f"{reason}; trying again.")
        try:
            return attempt.run()
        except Exception as error:
            return _failed(task, error)
    except Cancelled:
        return Report(name=task.name, stopped=True)


class _Attempt:
    """The run of an image, which is tried again; what was computed is kept between two tries."""

    def __init__(self, task: ImageTask, model: Backbone | None) -> None:
        self._task = task
        self._model = model
        self._computed: tuple[Bundle, Finished] | None = None
        self._notes: list[str] = []

    def run(self) -> Report:
        """Compute the image, unless that is done, and write its results."""
        task = self._task
        if self._computed is None:
            report = kept(task)
            if report is not None:
                return report
            mark = Finished.of(task)
            with here(task) as copied:
                bundle = _inverted(copied, self._model, self._notes.append)
            self._computed = bundle, mark
        bundle, mark = self._computed
        regions = 0
        if store(task, bundle, mark):
            regions = len(bundle.results)
        notes = tuple(filter(None, self._notes))
        return Report(name=task.name, regions=regions, kept=not regions, notes=notes)


def _failed(task: ImageTask, error: Exception) -> Report:
    return Report(
        name=task.name,
        problem=_one_line(error, task),
        bare=isinstance(error, NoRegionsError),
        internal=not isinstance(error, MaskInversionError | OSError | MemoryError),
        is_disk_full=is_disk_full(error),
    )


def kept(task: ImageTask) -> Report | None:
    """Return the report of an image whose results are there; formats that they lack are added."""
    if not is_marked(task) or is_damaged(task):
        return None
    different = differences(task)
    if different == MORE_FORMATS:
        return Report(name=task.name, regions=_add_formats(task))
    if different:
        return None
    return Report(name=task.name, kept=True)


def _inverted(task: ImageTask, model: Backbone | None, on_note: Callable[[str], object]) -> Bundle:
    with open_job(task.image, task.regions, task.settings, read=read_regions) as job:
        words, bank = words_and_bank(task, job)
        model = model or _loaded(task.model, task.settings.architecture, task.settings.device)
        on_note(brightness_note(job.tasks[0].source))
        return run_job(job, model, words, bank)


def words_and_bank(task: ImageTask, job: Job) -> tuple[Vocabulary | None, CaptionBank | None]:
    """Return labels and captions of an opened task."""
    return _words(task, job.names), None if task.bank is None else _open_bank(task.bank)


def store(task: ImageTask, bundle: Bundle, finished: Finished) -> bool:
    """Write the results of an image with the mark that it is done."""
    for folder in (task.part.parent, task.archive):
        folder.mkdir(parents=True, exist_ok=True)
    if is_marked(task) and not differences(task) and not is_damaged(task):
        return False  # a worker that was thought dead has been faster
    _write(task, bundle, finished)
    return True


def store_ranking(task: ImageTask, bundle: Bundle) -> None:
    """Write the results of an image that is done, ranked otherwise, and leave its mark as it is.

    A ranking by the decisions of a review is nothing that a batch would make again, and no reason
    to compute the image anew.
    """
    finished = read_finished(task.archive)
    _write(replace(task, formats=tuple(finished.formats)), bundle, finished)


def _write(task: ImageTask, bundle: Bundle, finished: Finished) -> None:
    # The mark that the image is done comes last: what is killed before it is done again.
    # It is written beside the archive: each write looks through its folder, and that of all parts
    # may have a million files.
    part = task.archive / task.part.name
    write_parquet(bundle, part, image=task.name)
    part.replace(task.part)
    earlier = []
    with suppress(InputError):
        earlier = read_finished(task.archive).files
    with together(task.archive) as files:
        write_results(bundle, task.archive, task.formats, overwrite=True)
        finished = finished.with_files(files.place, part=FileFingerprint.of(task.part))
        write_finished(finished, task.archive)
    # Files of earlier results that the new ones lack go, unless somebody changed them.
    new = {file.name for file in finished.files}
    for file in earlier:
        if file.name not in new and file.fits(task.archive / file.name):
            with suppress(OSError):
                delete(task.archive / file.name)


def _add_formats(task: ImageTask) -> int:
    """Write the formats that an image lacks from its archive."""
    kept = read_finished(task.archive)
    lacking = [name for name in task.formats if name not in kept.formats]
    bundle = open_archive(task.archive / FORMATS[ALWAYS].file)
    with together(task.archive) as files:
        write_results(bundle, task.archive, lacking, overwrite=True)
        kept = kept.with_files(files.place, formats=[*kept.formats, *lacking])
        write_finished(kept, task.archive)
    return len(bundle.results)


def _loaded(name: str, architecture: str | None, device: str) -> Backbone:
    """Load a model once for all images of this process, also if several threads ask for it."""
    with _LOADING:
        return _load(name, architecture, device)


_open_bank = lru_cache(maxsize=1)(open_bank)  # once for all images of this process


@lru_cache(maxsize=1)
def _load(name: str, architecture: str | None, device: str) -> Backbone:
    from ..engine.models.loading import load_where_it_fits

    return load_where_it_fits(name, device=device, architecture=architecture).model


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
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__ or error.__context__
    return False


def _one_line(error: BaseException, task: ImageTask) -> str:
    text = one_line(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory for it; use fewer --workers, or a machine with more."
    if isinstance(error, OSError):
        text = f"{error.filename or task.image}: {error.strerror or error}"
    elif not isinstance(error, MaskInversionError):
        text = f"internal error ({type(error).__name__}: {text})"
    return text
