"""Results of a review, ranked again by decisions; accepted regions are kept on disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakSet

from qtpy.QtCore import QObject, Signal

from ...app.requests.preparing import check_on_disk
from ...app.review.learning import learn, train
from ...app.review.review_options import ReviewOptions
from ...app.review.review_state import ReviewState
from ...app.session import ResultRecord, Session, Snapshot, job_kinds
from ...app.session.jobs import Jobs
from ...app.work.model_store import ModelStore
from ...base.errors import MaskInversionError
from ...learning.samples import LabelledEmbedding, RegionOfImage
from ...results.results import Results
from ...review.decisions import Step
from ..workers.notify import refusing

if TYPE_CHECKING:
    import pandas as pd

    from ...engine.models.backbone import Backbone

_TOO_FEW: Final = "Learns once two words are accepted, or one and a rejection."
Changes = dict[RegionOfImage, "LabelledEmbedding | None"]


class Reranked(NamedTuple):
    """Results before and after they were ranked by decisions, or again without them."""

    before: Results
    after: Results
    table: pd.DataFrame
    note: str = ""  # Why nothing was learned


class ReviewLearning(QObject):
    """Keeps accepted regions, and ranks the results by decisions in a worker if learning is on."""

    trained = Signal(object)  # `Trained`, of the review that is still open
    noted = Signal(str)  # Why nothing is learned, though that is asked for; "": it is

    def __init__(self, session: Session, store: ModelStore, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._store, self.options = session, store, ReviewOptions()
        # Runs whose results were ranked by decisions here, and not in a file that was opened
        self._ranked: WeakSet[Snapshot] = WeakSet()
        self._is_showing = False
        self.known = KnownRegions(session.jobs, self)
        self.known.loaded.connect(self._loaded)
        self._learning = session.jobs.of(job_kinds.LEARN)
        self._training = session.jobs.of(job_kinds.TRAIN)

    @property
    def busy(self) -> bool:
        """Whether results are being ranked."""
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
        self.noted.emit("")
        if self.options.learn:
            self.ask()
        else:
            self.catch_up()

    def catch_up(self) -> None:
        """Learn, or rank without decisions, if that was chosen while other results were shown."""
        record = self._session.run.record
        if record is None or record.results.has_decisions == self.options.learn:
            return
        if self.options.learn or record.snapshot in self._ranked:
            self.ask()

    def follow(self) -> None:
        """Learn for results with other words, limits or captions than those before."""
        if self.options.learn and not self._is_showing:
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
        """Rank the results by decisions if learning is on; else as they were without."""
        state, options, record = self._state, self.options, self._session.run.record
        self._learning.drop()
        if state is None or record is None or not state.has_words:
            self.noted.emit("")
            return
        if not options.learn:
            self._rank_without(record)
            return
        try:
            load = self._load(record)
        except MaskInversionError as error:  # not on this machine: only a button fetches it
            self._failed(str(error))
            return
        known = self.known.accepted(state.results)
        image, rows = state.review.image.content, state.taught
        work = partial(learn, load, record.results, rows, image, known, options.other_words)
        rank = partial(_rank_by_decisions, record.results, work)
        self._learning.start(rank, self._learned, failed=self._failed)

    def _rank_without(self, record: ResultRecord, note: str = "") -> None:
        """Show the results ranked without decisions."""
        self.noted.emit(note)
        if record.results.has_decisions:
            work = partial(_rank_without_decisions, record.results, note)
            # No retry if this fails: it would fail again. A message says why.
            self._learning.start(work, self._learned)

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
            self._training.start(partial(train, self._load(record), *about), self.trained.emit)

    def _load(self, record: ResultRecord) -> Callable[[], Backbone]:
        """Return what loads the model of results; refuses one that is not on this machine."""
        settings = record.snapshot.settings
        check_on_disk(settings.model)
        return partial(self._store.load, settings.model, settings.device)

    def _loaded(self, space: str) -> None:
        state = self._state
        if self.options.learn and state is not None and state.results.info.space == space:
            self.ask()

    def _learned(self, answer: Reranked) -> None:
        """Show an answer."""
        record = self._session.run.record
        if record is None or self._state is None:
            return
        self.noted.emit(answer.note)
        if answer.after is answer.before:
            return
        self._ranked.add(record.snapshot)
        self._is_showing = True
        try:
            self._session.show(record.changed(results=answer.after, table=answer.table))
        finally:
            self._is_showing = False

    def _failed(self, why: str) -> None:
        """Rank without decisions; a box after each one would be too much."""
        record = self._session.run.record
        if self._state is not None and record is not None:
            self._rank_without(record, f"Learn from decisions: {why}")


def _rank_by_decisions(results: Results, learn: Callable[[], Results | None]) -> Reranked:
    learned = learn()
    if learned is None:
        return _rank_without_decisions(results, _TOO_FEW)
    return Reranked(results, learned, learned.to_frame())


def _rank_without_decisions(results: Results, note: str) -> Reranked:
    before = results.without_decisions()
    return Reranked(results, before, before.to_frame(), note)


class KnownRegions(QObject):
    """Accepted regions of all images, by the model that embedded them; one worker keeps them.

    An image may be reviewed plane by plane or run again: new values of a region replace its old
    ones, and other regions stay. After a crash, missing entries are written when the review of that
    image is next opened.
    """

    loaded = Signal(str)  # A model's space, of which earlier sessions have kept regions
    problem = Signal(str)  # Why regions are missing or not kept

    def __init__(self, jobs: Jobs, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # None: the region is not accepted, even if an earlier session kept it.
        self._known: dict[str, Changes] = {}
        self._reported: set[str] = set()
        self._job = jobs.of(job_kinds.KEEP_ACCEPTED)

    @property
    def busy(self) -> bool:
        """Whether reads or writes are running or waiting."""
        return self._job.busy

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
                self._job.start(partial(_read, space, embed_dim), self._told)
            self._known[space].update(changes)
            self._job.start(partial(_write, space, embed_dim, changes), self._told)

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
