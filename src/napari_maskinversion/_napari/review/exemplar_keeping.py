"""Accepted regions on disk, read and written outside the GUI thread."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from qtpy.QtCore import QObject, Signal

from ..widgets.sections import pause
from ..workers.worker import Worker

if TYPE_CHECKING:
    from ...results.run_info import RunInfo
    from ...review.exemplar_store import ExemplarKey, LabelledEmbedding, StoredExemplars

_PAUSE: Final = 1000  # milliseconds; decisions within are written together


class ExemplarKeeping(QObject):
    """Reads each model's file once, and writes decisions; one worker, in order.

    After a crash, missing entries are written when the review of that image is next opened.
    """

    loaded = Signal(str, object)  # A model's space, and its regions
    problem = Signal(str)  # Why regions are missing or not kept

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._asked: set[str] = set()
        self._pending: dict[tuple[str, int], dict[ExemplarKey, LabelledEmbedding | None]] = {}
        self._reported: set[str] = set()
        self._worker = Worker("queue", "Keeping accepted regions", parent=self)
        self._worker.done.connect(self._tell)
        # Not superqt's throttler: `busy` and `flush` need to know whether it is waiting.
        self._timer = pause(self, _PAUSE, self.flush)

    @property
    def busy(self) -> bool:
        """Whether reads or writes are running or waiting."""
        return self._worker.busy or self._timer.isActive()

    def load(self, info: RunInfo) -> None:
        """Read the regions of a model and method, unless already read."""
        if info.space not in self._asked:
            self._asked.add(info.space)
            self._worker.start(partial(_read, info.space, info.embed_dim))

    def keep(self, info: RunInfo, changes: Mapping[ExemplarKey, LabelledEmbedding | None]) -> None:
        """Write changes after a short pause, together with later ones."""
        if not changes:
            return
        self._pending.setdefault((info.space, info.embed_dim), {}).update(changes)
        if not self._timer.isActive():
            self._timer.start()

    def flush(self) -> None:
        """Write waiting changes now."""
        self._timer.stop()
        pending, self._pending = self._pending, {}
        for (space, embed_dim), changes in pending.items():
            self._worker.start(partial(_write, space, embed_dim, changes))

    def _tell(self, outcome: tuple[str, StoredExemplars | str]) -> None:
        space, kept = outcome
        note = kept if isinstance(kept, str) else kept.note
        if not isinstance(kept, str):
            self.loaded.emit(space, kept.regions)
        if note and note not in self._reported:
            self._reported.add(note)
            self.problem.emit(note)


def _read(space: str, embed_dim: int) -> tuple[str, StoredExemplars]:
    from ...review.exemplar_store import ExemplarStore

    return space, ExemplarStore(space, embed_dim).read()


def _write(
    space: str, embed_dim: int, changes: Mapping[ExemplarKey, LabelledEmbedding | None]
) -> tuple[str, str]:
    from ...review.exemplar_store import ExemplarStore

    return space, ExemplarStore(space, embed_dim).write(changes)
