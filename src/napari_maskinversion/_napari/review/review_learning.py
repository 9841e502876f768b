"""Suggestions of a review, re-ranked by decisions; accepted regions are kept on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from qtpy.QtCore import QObject, Signal

from ...base.errors import MaskInversionError
from ...results.run_info import RunInfo
from ...review.decisions import Step
from ...review.exemplar_store import ExemplarKey, LabelledEmbedding, StoredExemplars
from ..run_requests.preparing import check_on_disk
from ..session import ResultRecord, Session
from ..widgets.sections import pause
from ..workers.model_store import ModelStore
from ..workers.worker import Worker
from .learning import KnownRegions, Learned, learn
from .review_options import ReviewOptions
from .review_state import ReviewState

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

_TOO_FEW: Final = "Learns once two words are accepted, or one and a rejection."
_PAUSE: Final = 1000  # milliseconds; decisions within are written together


class ReviewLearning(QObject):
    """Keeps accepted regions, and re-ranks suggestions in a worker if learning is on."""

    ranked = Signal()
    noted = Signal(str)  # Why nothing is learned, though that is asked for; "": it is

    def __init__(self, session: Session, store: ModelStore, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._store, self.options = session, store, ReviewOptions()
        self.known = KnownRegions()
        self.keeping = ExemplarKeeping(self)
        self.keeping.loaded.connect(self._loaded)
        self._learning = Worker(
            "latest", "Learning from decisions", self._learned, self._failed, parent=self
        )

    @property
    def busy(self) -> bool:
        """Whether suggestions are being ranked."""
        return self._learning.busy

    @property
    def _state(self) -> ReviewState | None:
        state: ReviewState | None = self._session.reviewed
        return state

    def begin(self, state: ReviewState) -> None:
        """Take the accepted regions of an opened review, and learn from them."""
        review = state.review
        results, accepted = state.results, review.decisions.accepted()
        self.keeping.load(results.info)
        rows = {row: accepted.get(key) for row, key in enumerate(state.queue.keys)}
        self.keeping.keep(results.info, self.known.change(results, review.image.content, rows))
        self.ask()

    def remember(self, state: ReviewState, step: Step) -> None:
        """Learn from a decision."""
        rows: dict[int, str | None] = {}
        for change in step:
            with suppress(KeyError):
                decision = state.review.decisions.get(change.region)
                label = "" if decision is None else decision.label
                rows[state.queue.row(change.region)] = label or None
        changes = self.known.change(state.results, state.review.image.content, rows)
        self.keeping.keep(state.results.info, changes)
        if self.options.learn:
            self.ask()

    def ask(self) -> None:
        """Re-rank by accepted regions if learning is on; else restore the text's ranks."""
        state, options, record = self._state, self.options, self._session.record
        if state is None or record is None or not state.has_words:
            self.noted.emit("")
            return
        self._learning.drop()
        if not options.learn:
            self._take(state, None)
            return
        try:
            load = self.load(record)
        except MaskInversionError as error:  # not on this machine: only a button fetches it
            self._failed(str(error))
            return
        known = self.known.accepted(state.results)
        image, rows = state.review.image.content, state.taught
        self._learning.start(
            partial(learn, load, state.results, rows, image, known, options.other_words)
        )

    def load(self, record: ResultRecord) -> Callable[[], Backbone]:
        """Return what loads the model of results; refuses one that is not on this machine."""
        settings = record.snapshot.settings
        check_on_disk(settings.model)
        return partial(self._store.load, settings.model, settings.device)

    def stop(self) -> None:
        """Drop pending rankings and write unsaved exemplars."""
        self._learning.drop()
        self.keeping.flush()

    def _loaded(self, space: str, kept: dict[ExemplarKey, LabelledEmbedding]) -> None:
        self.known.add(space, kept)
        state = self._state
        if kept and state is not None and state.results.info.space == space:
            self.ask()

    def _learned(self, learned: Learned | None) -> None:
        state = self._state
        if state is not None and (learned is None or state.results is learned.results):
            self._take(state, learned, _TOO_FEW if learned is None else "")

    def _failed(self, why: str) -> None:
        """Keep the text's ranks; a box after each decision would be too much."""
        if self._state is not None:
            self._take(self._state, None, f"Learn from decisions: {why}")

    def _take(self, state: ReviewState, learned: Learned | None, note: str = "") -> None:
        state.learn(learned, time.monotonic())
        self.noted.emit(note)
        self.ranked.emit()


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
        self._worker = Worker("queue", "Keeping accepted regions", self._tell, parent=self)
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
