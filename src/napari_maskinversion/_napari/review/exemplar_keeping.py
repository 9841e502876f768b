"""Accepted regions on the disk, read and written beside the GUI thread."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from qtpy.QtCore import QObject, QTimer, Signal

from ..workers.worker import Worker

if TYPE_CHECKING:
    from ...results.run_info import RunInfo
    from ...review.exemplar_store import ExemplarKey, LabelledEmbedding, StoredExemplars

_PAUSE: Final = 1000  # milliseconds: decisions of that time are written together


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
        self._pending: dict[tuple[str, int], dict[ExemplarKey, LabelledEmbedding | None]] = {}
        self._said: set[str] = set()
        self._worker = Worker("queue", "Keeping accepted regions", parent=self)
        self._worker.done.connect(self._tell)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_PAUSE)
        self._timer.timeout.connect(self.flush)

    @property
    def busy(self) -> bool:
        """Whether something is being read or written, or waits for it."""
        return self._worker.busy or self._timer.isActive()

    def load(self, info: RunInfo) -> None:
        """Read what is kept of a model and method, unless that was done."""
        if info.space not in self._asked:
            self._asked.add(info.space)
            self._worker.start(partial(_read, info.space, info.embed_dim))

    def keep(self, info: RunInfo, changes: Mapping[ExemplarKey, LabelledEmbedding | None]) -> None:
        """Write changes, a moment later and with those that follow."""
        if not changes:
            return
        self._pending.setdefault((info.space, info.embed_dim), {}).update(changes)
        if not self._timer.isActive():
            self._timer.start()

    def flush(self) -> None:
        """Write what waits now."""
        self._timer.stop()
        pending, self._pending = self._pending, {}
        for (space, embed_dim), changes in pending.items():
            self._worker.start(partial(_write, space, embed_dim, changes))

    def _tell(self, outcome: tuple[str, StoredExemplars | str]) -> None:
        space, kept = outcome
        note = kept if isinstance(kept, str) else kept.note
        if not isinstance(kept, str):
            self.loaded.emit(space, kept.regions)
        if note and note not in self._said:
            self._said.add(note)
            self.told.emit(note)


def _read(space: str, embed_dim: int) -> tuple[str, StoredExemplars]:
    from ...review.exemplar_store import ExemplarStore

    return space, ExemplarStore(space, embed_dim).read()


def _write(
    space: str, embed_dim: int, changes: Mapping[ExemplarKey, LabelledEmbedding | None]
) -> tuple[str, str]:
    from ...review.exemplar_store import ExemplarStore

    return space, ExemplarStore(space, embed_dim).write(changes)
