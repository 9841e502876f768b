"""Keeps the results shown in step with words and limits, from their stored embeddings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from qtpy.QtCore import QObject

from ...app.requests.preparing import check_on_disk
from ...app.session import RunState, Session, Topic, job_kinds, staleness
from ...app.work.model_store import ModelStore
from ...app.work.preload import start_torch
from ...base.errors import MaskInversionError
from ...language.labels.vocabulary import Vocabulary
from ...language.ranking.uncertainty import UncertaintyConfig
from ...results.results import Results
from ..widgets.sections import debouncer

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from ...engine.models.backbone import Backbone

_QUIET: Final = 400  # milliseconds without a change of the words


class RerankController(Topic, QObject):
    """Ranks by changed words and judges by changed limits; live mode does it itself."""

    def __init__(self, session: Session, store: ModelStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session, self._store = session, store
        self.job = session.jobs.of(job_kinds.RERANK)
        self._pause = debouncer(self, _QUIET, self._rank)

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        self.after(self._look, run.settings, run.vocabulary, run.record, run.live)
        self.after(self._run_changed, run.progress)
        self._look()

    def stop(self) -> None:
        """Follow the session no more."""
        super().stop()
        self._pause.cancel()

    def _run_changed(self, run: RunState) -> None:
        if not run.running:
            self._look()

    def _look(self, _: object = None) -> None:
        session, record = self._session, self._session.run.record
        if self._other_words():
            self._pause.throttle()
            return
        self._pause.cancel()
        self.job.drop()
        if record is None or session.run.live:
            return
        # Also during a run, whose results have the limits of its start.
        info, words = record.results.info, session.run.vocabulary
        threshold_before = None if info.vocabulary is None else info.vocabulary.threshold
        threshold = threshold_before if words is None else words.threshold
        unsure = session.run.settings.unsure
        if (threshold_before, info.settings.unsure) != (threshold, unsure):
            work = partial(_judge, record.results, threshold, unsure)
            self.job.start(work, self._show)

    def _other_words(self) -> bool:
        session = self._session
        idle = not (session.run.live or session.run.progress.running)
        return bool(idle and session.run.results and staleness(session).words)

    def _rank(self) -> None:
        session, record = self._session, self._session.run.record
        if not self._other_words() or record is None:
            return
        settings = record.snapshot.settings
        try:
            # Fetching is for a run: these results stay as they are, and are marked.
            check_on_disk(settings.model)
        except MaskInversionError:
            return
        load = partial(self._store.get, settings.model, settings.device)
        if session.run.vocabulary is not None:
            work = partial(_rank, load, record.results, session.run.vocabulary)
            self.job.start(work, self._show)

    def _show(self, reread: Reread | None) -> None:
        record = self._session.run.record
        if reread is not None and record is not None:
            self._session.show(record.changed(results=reread.results, table=reread.table))


class Reread(NamedTuple):
    """Results with other words or limits, and their table."""

    results: Results
    table: pd.DataFrame


def _judge(before: Results, threshold: float | None, unsure: UncertaintyConfig) -> Reread:
    after = before.with_threshold(threshold).with_limits(unsure)
    return Reread(after, after.to_frame())


def _rank(load: Callable[[], Backbone], before: Results, vocabulary: Vocabulary) -> Reread | None:
    start_torch()
    from ...pipeline.reranking import rerank

    model = load()
    if getattr(model, "fingerprint", "") != before.info.fingerprint:
        return None  # a new run is needed
    after = rerank(model, before, vocabulary)
    return Reread(after, after.to_frame())
