"""Suggestions of a review, re-ranked by accepted regions."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from qtpy.QtCore import QObject, Signal

from ..session import Session
from ..workers.worker import Worker
from .exemplar_keeping import ExemplarKeeping
from .learning import KnownRegions, Learned
from .review_options import ReviewOptions
from .review_state import ReviewState
from .review_workers import LearningTask, rank_with_exemplars

if TYPE_CHECKING:
    from ...results.results import Results
    from ...review.decisions import Step
    from ...review.exemplar_store import ExemplarKey, LabelledEmbedding


class ReviewLearning(QObject):
    """Keeps accepted regions, and re-ranks suggestions in a worker if learning is on."""

    ranked = Signal()

    def __init__(
        self,
        session: Session,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self.options = session, ReviewOptions()
        self.known = KnownRegions()
        self.keeping = ExemplarKeeping(self)
        self.keeping.loaded.connect(self._loaded)
        self._learning = Worker("latest", "Learning from decisions", parent=self)
        self._learning.done.connect(self._learned)

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
        self.keeping.keep(results.info, self.known.update(results, review.image.content, accepted))
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
        state, options = self._state, self.options
        if state is None or state.learner is None:
            return
        if not options.learn:
            self.drop()
            self._take(state, None)
        else:
            words = None if options.other_words else frozenset(state.words)
            exemplars = self.known.exemplars(state.results, words)
            lesson = LearningTask(state.learner, exemplars, options.weight, state.results)
            self._learning.start(partial(rank_with_exemplars, lesson))

    def drop(self) -> None:
        """Drop pending rankings."""
        self._learning.drop()

    def stop(self) -> None:
        """Drop pending rankings and write unsaved exemplars."""
        self.drop()
        self.keeping.flush()

    def _loaded(self, space: str, kept: dict[ExemplarKey, LabelledEmbedding]) -> None:
        self.known.add(space, kept)
        state = self._state
        if kept and state is not None and state.results.info.space == space:
            self.ask()

    def _learned(self, answer: tuple[Results, Learned]) -> None:
        results, learned = answer
        state = self._state
        if state is not None and state.results is results:
            self._take(state, learned)

    def _take(self, state: ReviewState, learned: Learned | None) -> None:
        state.learn(learned, time.monotonic())
        self.ranked.emit()
