"""Suggestions of a review, re-ranked by decisions; accepted regions are kept on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject, Signal

from ...app.requests.preparing import check_on_disk
from ...app.review.learning import Trained, learn, train
from ...app.review.review_options import ReviewOptions
from ...app.review.review_state import ReviewState
from ...app.review.suggestions import Suggestions
from ...app.session import ResultRecord, Session
from ...app.work.model_store import ModelStore
from ...base.errors import MaskInversionError
from ...learning.samples import LabelledEmbedding, RegionOfImage
from ...results.results import Results
from ...review.decisions import Step
from ..workers.notify import refuse, refusing
from ..workers.worker import Worker

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...review.review import Review

_TOO_FEW: Final = "Learns once two words are accepted, or one and a rejection."
Changes = dict[RegionOfImage, "LabelledEmbedding | None"]


class ReviewLearning(QObject):
    """Keeps accepted regions, and re-ranks suggestions in a worker if learning is on."""

    ranked = Signal()
    trained = Signal(object)  # `Trained`, of the review that is still open
    noted = Signal(str)  # Why nothing is learned, though that is asked for; "": it is

    def __init__(self, session: Session, store: ModelStore, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._store, self.options = session, store, ReviewOptions()
        self.known = KnownRegions(self)
        self.known.loaded.connect(self._loaded)
        self._learning = Worker(
            "latest", "Learning from decisions", self._learned, self._failed, parent=self
        )
        self._training = Worker(
            "latest", "Learning a classifier", self._taught, refuse, parent=self
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
        rows = {row: accepted.get(key) for row, key in enumerate(state.queue.keys)}
        self.known.change(results, review.image.content, rows)
        self.ask()

    def remember(self, state: ReviewState, step: Step) -> None:
        """Learn from a decision."""
        rows: dict[int, str | None] = {}
        for change in step:
            with suppress(KeyError):
                decision = state.review.decisions.get(change.region)
                label = "" if decision is None else decision.label
                rows[state.queue.row(change.region)] = label or None
        self.known.change(state.results, state.review.image.content, rows)
        if self.options.learn:
            self.ask()

    def ask(self) -> None:
        """Re-rank by accepted regions if learning is on; else restore the text's ranks."""
        state, options, record = self._state, self.options, self._session.run.record
        if state is None or record is None or not state.has_words:
            self.noted.emit("")
            return
        self._learning.drop()
        if not options.learn:
            self._take(state, None)
            return
        try:
            load = self._load(record)
        except MaskInversionError as error:  # not on this machine: only a button fetches it
            self._failed(str(error))
            return
        known = self.known.accepted(state.results)
        image, rows = state.review.image.content, state.taught
        self._learning.start(
            partial(learn, load, state.results, rows, image, known, options.other_words)
        )

    def train(self) -> None:
        """Learn a classifier from the decisions at hand, and those elsewhere."""
        session, state, record = self._session, self._state, self._session.run.record
        if state is None or record is None:
            return
        from ...app.review.decided_elsewhere import Elsewhere

        file = None if session.project.state is None else session.project.state.file
        known = self.known.accepted(state.results)
        elsewhere = Elsewhere(Path(file) if file else None, session.explore.library, known)
        review, measures = state.review, self.options.measures
        about = state.results, state.taught, review.image.content, elsewhere, measures
        with refusing():
            self._training.start(partial(_train, review, self._load(record), *about))

    def _taught(self, answer: tuple[Review, Trained]) -> None:
        review, trained = answer
        if self._state is not None and self._state.review is review:  # else another one is open now
            self.trained.emit(trained)

    def _load(self, record: ResultRecord) -> Callable[[], Backbone]:
        """Return what loads the model of results; refuses one that is not on this machine."""
        settings = record.snapshot.settings
        check_on_disk(settings.model)
        return partial(self._store.load, settings.model, settings.device)

    def stop(self) -> None:
        """Drop pending rankings."""
        self._learning.drop()
        self._training.drop()

    def _loaded(self, space: str) -> None:
        state = self._state
        if state is not None and state.results.info.space == space:
            self.ask()

    def _learned(self, learned: Suggestions | None) -> None:
        state = self._state
        if state is not None and (learned is None or state.results is learned.results):
            self._take(state, learned, _TOO_FEW if learned is None else "")

    def _failed(self, why: str) -> None:
        """Keep the text's ranks; a box after each decision would be too much."""
        if self._state is not None:
            self._take(self._state, None, f"Learn from decisions: {why}")

    def _take(self, state: ReviewState, learned: Suggestions | None, note: str = "") -> None:
        state.learn(learned, time.monotonic())
        self.noted.emit(note)
        self.ranked.emit()


def _train(review: Review, *about: Any) -> tuple[Review, Trained]:
    return review, train(*about)


class KnownRegions(QObject):
    """Accepted regions of all images, by the model that embedded them; one worker keeps them.

    An image may be reviewed plane by plane or run again: new values of a region replace its old
    ones, and other regions stay. After a crash, missing entries are written when the review of that
    image is next opened.
    """

    loaded = Signal(str)  # A model's space, of which earlier sessions have kept regions
    problem = Signal(str)  # Why regions are missing or not kept

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # None: the region is not accepted, even if an earlier session kept it.
        self._known: dict[str, Changes] = {}
        self._reported: set[str] = set()
        self._worker = Worker("queue", "Keeping accepted regions", self._told, parent=self)

    @property
    def busy(self) -> bool:
        """Whether reads or writes are running or waiting."""
        return self._worker.busy

    def change(self, results: Results, image: str, rows: Mapping[int, str | None]) -> None:
        """Take changed rows with their label or None; the first ones of a model read its file."""
        changes: Changes = {}
        for row, label in rows.items():
            region = results.regions[row]
            changes[image, region.key] = None if label is None else (region.embedding, label)
        if changes:
            space, embed_dim = results.info.space, results.info.embed_dim
            if space not in self._known:
                self._known[space] = {}
                self._worker.start(partial(_read, space, embed_dim))
            self._known[space].update(changes)
            self._worker.start(partial(_write, space, embed_dim, changes))

    def accepted(self, results: Results) -> dict[RegionOfImage, LabelledEmbedding]:
        """Return the accepted regions embedded by the model of these results."""
        known = self._known.get(results.info.space, {})
        return {place: one for place, one in known.items() if one is not None}

    def _told(self, outcome: tuple[str, Mapping[RegionOfImage, LabelledEmbedding], str]) -> None:
        space, kept, note = outcome
        if kept:
            self._known[space] = {**kept, **self._known[space]}  # newer entries win
            self.loaded.emit(space)
        if note and note not in self._reported:
            self._reported.add(note)
            self.problem.emit(note)


def _read(space: str, embed_dim: int) -> tuple[str, Mapping[RegionOfImage, LabelledEmbedding], str]:
    from ...library.accepted_regions import AcceptedRegions

    stored = AcceptedRegions(space, embed_dim).read()
    return space, stored.regions, stored.note


def _write(space: str, embed_dim: int, changes: Changes) -> tuple[str, Changes, str]:
    from ...library.accepted_regions import AcceptedRegions

    return space, {}, AcceptedRegions(space, embed_dim).write(changes)
