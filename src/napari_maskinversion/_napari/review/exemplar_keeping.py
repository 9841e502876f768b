"""Accepted regions on the disk, read and written beside the GUI thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from napari.qt.threading import thread_worker
from qtpy.QtCore import QObject, QTimer, Signal

from ..workers.notify import report_errors

if TYPE_CHECKING:
    from ...results.run_info import RunInfo
    from ...review.exemplar_store import ExemplarKey, LabelledEmbedding, StoredExemplars

_PAUSE: Final = 1000  # milliseconds: decisions of that time are written together


@dataclass(slots=True)
class _Task:
    """Reading what a model's file holds, or writing changes to it."""

    space: str
    embed_dim: int
    changes: dict[ExemplarKey, LabelledEmbedding | None] | None = field(
        default_factory=dict
    )  # None: read


class ExemplarKeeping(QObject):
    """Reads each model's file once, and writes what is decided; one worker, in order.

    What was not written when a program ends in a crash is written when that image's review is
    opened the next time.

    Signals
    -------
    loaded : str, dict
        A model's space, and its regions.
    told : str
        Why regions are missing, or are not kept.
    """

    loaded = Signal(str, object)
    told = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._asked: set[str] = set()
        self._tasks: deque[_Task] = deque()
        self._pending: dict[str, _Task] = {}
        self._said: set[str] = set()
        self._worker: Any = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_PAUSE)
        self._timer.timeout.connect(self.flush)

    @property
    def busy(self) -> bool:
        """Whether something is being read or written, or waits for it."""
        return self._worker is not None or self._timer.isActive()

    def load(self, info: RunInfo) -> None:
        """Read what is kept of a model and method, unless that was done."""
        if info.space not in self._asked:
            self._asked.add(info.space)
            self._tasks.append(_Task(info.space, info.embed_dim, None))
            self._begin()

    def keep(self, info: RunInfo, changes: Mapping[ExemplarKey, LabelledEmbedding | None]) -> None:
        """Write changes, a moment later and with those that follow."""
        if not changes:
            return
        task = self._pending.setdefault(info.space, _Task(info.space, info.embed_dim))
        assert task.changes is not None
        task.changes.update(changes)
        if not self._timer.isActive():
            self._timer.start()

    def flush(self) -> None:
        """Write what waits now."""
        self._timer.stop()
        self._tasks.extend(self._pending.values())
        self._pending = {}
        if self._tasks:
            self._begin()

    def _begin(self) -> None:
        if self._worker is None:
            self._worker = thread_worker(_work, ignore_errors=True)(self._tasks)
            self._worker.returned.connect(self._returned)
            report_errors(self._worker)
            self._worker.finished.connect(self._finished)
            self._worker.start()

    def _returned(self, outcomes: list[tuple[str, StoredExemplars | str]]) -> None:
        for space, outcome in outcomes:
            note = outcome if isinstance(outcome, str) else outcome.note
            if not isinstance(outcome, str):
                self.loaded.emit(space, outcome.regions)
            if note and note not in self._said:
                self._said.add(note)
                self.told.emit(note)

    def _finished(self) -> None:
        self._worker = None
        if self._tasks:
            self._begin()


def _work(tasks: deque[_Task]) -> list[tuple[str, StoredExemplars | str]]:
    """Do all that is asked; the list is emptied, since napari keeps workers."""
    from ...review.exemplar_store import ExemplarStore

    outcomes: list[tuple[str, StoredExemplars | str]] = []
    while tasks:
        task = tasks.popleft()
        store = ExemplarStore(task.space, task.embed_dim)
        given = task.changes
        outcomes.append((task.space, store.read() if given is None else store.write(given)))
    return outcomes
