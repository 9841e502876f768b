"""A batch: which images are to be done, and all of them done by an executor."""

from __future__ import annotations

import csv
from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Final

from ..base.atomic_files import atomic_path
from ..base.errors import InputError, MaskInversionError
from ..base.progress import with_ticks
from ..base.targets import check_folder, check_targets
from ..base.wording import counted, listed
from ..results.export.catalogue import check_formats
from ..results.export.table_export import is_ours, without_formula
from .executors import TaskExecutor, Work
from .finished import FILE, MORE_FORMATS, differences, is_damaged, is_marked, leftovers
from .image_task import ALWAYS, ARCHIVES, DATA_SET, ImageTask, Report
from .opened import OpenProject

FAILED: Final = "failed.csv"
_COLUMNS: Final = ("image", "problem")  # of this list
_TOLD: Final = 0.3  # seconds between two answers about what is under way
_DEATHS: Final = 6  # others may end workers, too, such as a cluster that needs its machines
_DEADLY: Final = (
    "the process that computed it ended suddenly again and again, perhaps for lack of memory; use "
    "fewer --workers, or a machine with more memory."
)
_REPLACED: Final = "A worker process ended suddenly. It is replaced."


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
        reasons = dict.fromkeys(chain.from_iterable(self.stale.values()))
        count = len(self.stale)
        were = "was" if count == 1 else "were"
        return (
            f"{counted(count, 'image')} in it {were} computed from other {', '.join(reasons)}: "
            f"{listed(self.stale)}"
        )


def plan(project: OpenProject, formats: Sequence[str] = (ALWAYS,), captions: str = "") -> Plan:
    """Return what is to be done for a project, and what is done already.

    ``captions`` is the hash of those that each region gets.
    """
    project.settings.method.check()
    check_formats(formats)
    tasks = []
    done = []
    bare = []
    stale = {}
    damaged = []
    for name in with_ticks("Images", project.by_name):
        task = project.task(name, formats, captions)
        if task is None:
            bare.append(name)
            continue
        if is_marked(task):
            different = differences(task)
            if different not in ([], MORE_FORMATS):
                stale[name] = different
            elif is_damaged(task):
                damaged.append(name)
            elif not different:
                done.append(name)
                continue
        tasks.append(task)
    return Plan(
        tasks=tuple(tasks),
        done=tuple(done),
        bare=tuple(bare),
        stale=stale,
        damaged=tuple(damaged),
        others=leftovers(project.out, project.by_name),
    )


def check_out(
    tasks: Sequence[ImageTask], out: Path, *, overwrite: bool, inputs: Sequence[Path] = ()
) -> None:
    """Refuse a folder in which results must not or cannot be written, as `check_targets` does.

    ``inputs`` are the files that the batch reads besides images and regions.
    """
    check_folder(out)
    inputs = list(inputs)
    for task in tasks:
        inputs += [task.image, task.regions]
    check_targets([out / FAILED], overwrite=overwrite, inputs=inputs, is_ours=is_our_list)
    for place in (out / ARCHIVES, out / DATA_SET):
        if any(path.absolute().is_relative_to(place.absolute()) for path in inputs):
            raise InputError(f"{place} holds images of the project; choose another --out.")
    for task in with_ticks("Images", tasks):
        files = [task.archive / name for name in (*check_formats(task.formats), FILE)]
        check_targets(files, overwrite=overwrite, inputs=inputs, is_ours=_is_ours)
        # A part without a mark is that of a batch which was killed.
        ours = (lambda _: True) if is_marked(task) else is_ours
        check_targets([task.part], overwrite=overwrite, inputs=inputs, is_ours=ours)


def _is_ours(file: Path) -> bool:
    return (file.parent / FILE).is_file()


def is_our_list(file: Path) -> bool:
    """Return whether a file is a list of failed images that a batch wrote."""
    try:
        with file.open("rb") as opened:
            return opened.readline(100).strip() == ",".join(_COLUMNS).encode()
    except OSError:
        return False


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
    one's. With the sixth worker it is given up.
    """
    waiting = iter(tasks)
    again: deque[ImageTask] = deque()
    alone: deque[ImageTask] = deque()
    deaths: Counter[str] = Counter()
    pending: dict[Future[Report], ImageTask] = {}
    is_alone = False
    try:
        while True:
            is_alone = bool(alone) if not pending else is_alone
            if alone or is_alone:
                if pending:
                    new = []
                else:
                    new = [alone.popleft()]
            else:
                room = max(0, executor.at_once - len(pending))
                new = [again.popleft() for _ in range(min(room, len(again)))]
                new += islice(waiting, room - len(new))
            for task in new:
                pending[executor.submit(work, task)] = task
            if not pending:
                return
            finished = wait(pending, timeout=_TOLD, return_when=FIRST_COMPLETED).done
            for future in sorted(finished, key=_ends_the_batch):  # what is done is reported first
                task = pending.pop(future)
                try:
                    report = future.result()
                except executor.died:
                    report = Report(name=task.name, stopped=True)
                if not report.stopped:
                    yield report
                    continue
                deaths[task.name] += 1
                if deaths[task.name] >= _DEATHS:
                    yield Report(name=task.name, problem=_DEADLY)
                    continue
                (alone if deaths[task.name] > 1 else again).append(task)
                yield Underway(executor.underway(), _REPLACED)
            yield Underway(executor.underway(), executor.note())
    except CancelledError:
        raise MaskInversionError(
            "The Dask scheduler went away. Finished images are kept; start it and run the same "
            "command to continue."
        ) from None
    finally:
        for future in pending:
            future.cancel()


def _ends_the_batch(future: Future[Report]) -> bool:
    return future.cancelled() or future.exception() is not None


def write_failed(problems: Mapping[str, str], out: Path) -> None:
    """Write the images that failed and why to ``failed.csv``; delete ours if there are none."""
    file = out / FAILED
    if not problems:
        if is_our_list(file):
            file.unlink()
        return
    out.mkdir(parents=True, exist_ok=True)
    with atomic_path(file) as part, part.open("w", encoding="utf-8", newline="") as text:
        rows = (map(without_formula, row) for row in problems.items())
        csv.writer(text, lineterminator="\n").writerows([_COLUMNS, *rows])
