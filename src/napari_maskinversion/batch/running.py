"""A batch: which images are to be done, and all of them done by an executor."""

from __future__ import annotations

import csv
import io
from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ..base.atomic_files import atomic_path
from ..base.errors import InputError, MaskInversionError
from ..base.targets import check_folder, check_targets
from ..language.labels.vocabulary import Vocabulary
from ..results.export.catalogue import check_formats
from ..results.export.table_csv import without_formula
from ..results.export.table_parquet import is_ours
from ..results.settings import RunSettings
from .drawn_file import is_drawn
from .executors import ClusterLost, TaskExecutor, Work, WorkerDied
from .finished import FILE, MORE_FORMATS, differences, is_damaged, is_marked
from .image_task import ALWAYS, ARCHIVES, DATA_SET, ImageTask, Report
from .leftovers import leftovers
from .project import Project, ProjectImage, place_of

FAILED: Final = "failed.csv"
_FAILED_COLUMNS: Final = ("image", "problem")
_HEADER: Final = (",".join(_FAILED_COLUMNS) + "\n").encode()
_LISTED: Final = 5  # names in a text
_TOLD: Final = 0.3  # seconds between two answers about what is under way
_DEATHS: Final = 6  # others may end workers, too, such as a cluster that needs its machines
_DEADLY: Final = (
    "the process that computed it ended suddenly again and again, perhaps for lack of memory; use "
    "fewer --workers, or a machine with more memory."
)

_AT_START: Final = (
    "Worker processes ended suddenly at their start again and again, perhaps for lack of memory; "
    "use fewer --workers, or leave the option out."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a batch has to do."""

    tasks: tuple[ImageTask, ...]  # The images to be done
    done: tuple[str, ...] = ()  # Names of images whose results are there
    bare: tuple[str, ...] = ()  # Names of images without regions
    # By name of an image with other results: what differs
    stale: Mapping[str, Sequence[str]] = field(default_factory=dict)
    damaged: tuple[str, ...] = ()  # Names of images whose results were changed or deleted
    # Names of images with results that are not in the project, or are to be skipped
    others: tuple[str, ...] = ()

    @property
    def stale_text(self) -> str:
        """One line about the stale images; "" if there are none."""
        if not self.stale:
            return ""
        reasons = dict.fromkeys(reason for one in self.stale.values() for reason in one)
        count = len(self.stale)
        return (
            f"{count} image{'s' * (count != 1)} in it {'was' if count == 1 else 'were'} computed "
            f"from other {', '.join(reasons)}: {listed(self.stale)}"
        )


def task_of(
    project: Project,
    image: ProjectImage,
    folder: Path,
    out: Path,
    settings: RunSettings,
    vocabulary: Vocabulary | None,
    formats: Sequence[str] = (ALWAYS,),
) -> ImageTask:
    """Return the task of an image that has regions."""
    return ImageTask(
        name=image.name,
        image=place_of(image.image, folder),
        regions=place_of(str(image.regions), folder),
        settings=settings_of(image, folder, settings),
        vocabulary=vocabulary,
        templates=project.templates,
        colors=project.colors,
        formats=tuple(dict.fromkeys((*formats, ALWAYS))),
        out=out,
    )


def settings_of(image: ProjectImage, folder: Path, settings: RunSettings) -> RunSettings:
    """Return the settings of an image: its number in a file; drawn regions know their planes."""
    values: dict[str, Any] = {} if image.series is None else {"series": image.series}
    if settings.planes is not None and image.regions and is_drawn(folder / image.regions):
        values["planes"] = None
    return settings.changed(values)


def listed(names: Iterable[str]) -> str:
    """Return the first few of some names."""
    first = list(names)
    return ", ".join(first[:_LISTED]) + ", ..." * (len(first) > _LISTED)


def plan(
    project: Project,
    folder: Path,
    out: Path,
    *,
    formats: Sequence[str] = (ALWAYS,),
    changes: Mapping[str, Any] | None = None,
    captions: str = "",
) -> Plan:
    """Return what is to be done for a project, and what is done already."""
    settings: RunSettings = project.run_settings(folder).changed(changes or {})
    settings.method.check()
    check_formats(formats)
    vocabulary = project.vocabulary(folder, settings.threshold)
    images = [image for image in project.images if image.state != "skip"]
    tasks, done, bare, stale, damaged = [], [], [], {}, []
    for image in images:
        if image.regions is None:
            bare.append(image.name)
            continue
        task = replace(
            task_of(project, image, folder, out, settings, vocabulary, formats), captions=captions
        )
        if is_marked(task):
            different = differences(task)
            if different not in ([], MORE_FORMATS):
                stale[task.name] = different
            elif is_damaged(task):
                damaged.append(task.name)
            elif not different:
                done.append(task.name)
                continue
        tasks.append(task)
    return Plan(
        tasks=tuple(tasks),
        done=tuple(done),
        bare=tuple(bare),
        stale=stale,
        damaged=tuple(damaged),
        others=leftovers(out, (image.name for image in images)),
    )


def check_out(
    tasks: Sequence[ImageTask], out: Path, *, overwrite: bool, inputs: Sequence[Path] = ()
) -> None:
    """Refuse a folder in which results must not or cannot be written, as `check_targets` does.

    ``inputs`` are the files that the batch reads besides images and regions.
    """
    check_folder(out)
    inputs = [*inputs, *(path for task in tasks for path in (task.image, task.regions))]
    check_targets([out / FAILED], overwrite=overwrite, inputs=inputs, is_ours=is_our_list)
    for place in (out / ARCHIVES, out / DATA_SET):
        if any(path.absolute().is_relative_to(place.absolute()) for path in inputs):
            raise InputError(f"{place} holds images of the project; choose another --out.")
    for task in tasks:
        files = [task.archive / name for name in (*check_formats(task.formats), FILE)]
        check_targets(files, overwrite=overwrite, inputs=inputs, is_ours=_is_ours)
        # A part without a mark is that of a batch which was killed.
        ours = is_ours if not is_marked(task) else lambda _: True
        check_targets([task.part], overwrite=overwrite, inputs=inputs, is_ours=ours)


def is_our_list(file: Path) -> bool:
    """Return whether a file is a list of failed images that a batch wrote."""
    try:
        with file.open("rb") as opened:
            # Earlier versions ended lines with \r\n on Windows.
            return opened.readline(100).replace(b"\r\n", b"\n") == _HEADER
    except OSError:
        return False


def _is_ours(file: Path) -> bool:
    return (file.parent / FILE).is_file()


@dataclass(frozen=True, slots=True)
class Underway:
    """What a batch does at the moment."""

    shares: Mapping[str, float]  # Share (0..1) that is done of each image that was begun, by name
    note: str = ""  # One line about a trouble that it waits for, or has overcome; else ""


def run_batch(
    tasks: Iterable[ImageTask], executor: TaskExecutor, work: Work
) -> Generator[Report | Underway, None, None]:
    """Do tasks in any order; yield the report of each when it is done, and `Underway` meanwhile.

    A task whose worker died is done again, from the second time alone, so that it ends no other
    one's. With the sixth worker it is given up. If the sixth dies before anything was begun, the
    batch ends.
    """
    waiting = iter(tasks)
    is_alone = False
    again: deque[ImageTask] = deque()
    alone: deque[ImageTask] = deque()
    died: Counter[str] = Counter()
    in_vain: Counter[str] = Counter()  # since anything was begun
    pending: dict[Future[Report], ImageTask] = {}
    try:
        while True:
            if not pending:
                is_alone = bool(alone)
            if alone or is_alone:
                new = [] if pending else [alone.popleft()]
            else:
                room = max(0, executor.at_once - len(pending))
                new = [again.popleft() for _ in range(min(room, len(again)))]
                new += islice(waiting, room - len(new))
            for task in new:
                pending[executor.submit(work, task)] = task
            if not pending:
                return
            for future in wait(pending, timeout=_TOLD, return_when=FIRST_COMPLETED).done:
                task = pending.pop(future)
                try:
                    yield future.result()
                    in_vain.clear()
                except ClusterLost as error:
                    again.append(task)
                    yield Underway(executor.underway(), str(error))
                except WorkerDied as error:
                    died[task.name] += error.times
                    in_vain[task.name] += 1
                    if error.times or executor.underway():
                        in_vain.clear()
                    if in_vain[task.name] >= _DEATHS:
                        raise MaskInversionError(_AT_START) from None
                    if error.times and died[task.name] >= _DEATHS:
                        yield Report(name=task.name, problem=_DEADLY)
                        continue
                    (alone if died[task.name] > 1 else again).append(task)
                    yield Underway(executor.underway(), f"{error} It is replaced.")
            yield Underway(executor.underway(), executor.note())
    finally:
        for future in pending:
            future.cancel()


def write_failed(problems: Mapping[str, str], out: Path) -> None:
    """Write the images that failed and why to ``failed.csv``; delete ours if there are none."""
    file = out / FAILED
    if not problems:
        if is_our_list(file):
            file.unlink()
        return
    out.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as part:
        rows = _rows([_FAILED_COLUMNS, *problems.items()])
        part.write_text(rows, encoding="utf-8", newline="")


def add_failed(name: str, problem: str, out: Path) -> None:
    """Add an image to ``failed.csv`` at once, since the batch may be killed before its end.

    A disk that refuses is no reason to stop: `write_failed` says so at the end.
    """
    file = out / FAILED
    with suppress(OSError):
        rows = [(name, problem)] if file.exists() else [_FAILED_COLUMNS, (name, problem)]
        with file.open("a", encoding="utf-8", newline="") as end:
            end.write(_rows(rows))


def _rows(rows: Iterable[tuple[str, str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(map(without_formula, row) for row in rows)
    return text.getvalue()
