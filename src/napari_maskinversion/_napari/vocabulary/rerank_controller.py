"""Keeps the results shown in step with words and limits, from their stored embeddings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from qtpy.QtCore import QObject

from ...app.requests.preparing import check_on_disk
from ...app.session import ResultRecord, RunState, Session, Topic, staleness
from ...app.work.model_store import ModelStore
from ...app.work.preload import start_torch
from ...base.errors import MaskInversionError
from ...language.labels.vocabulary import Vocabulary
from ...language.ranking.uncertainty import UncertaintyConfig
from ...results.results import Results
from ..widgets.sections import debouncer
from ..workers.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable

    import pandas as pd

    from ...engine.models.backbone import Backbone

Reread = tuple["Results", "Results", "pd.DataFrame"]  # Before and after, and the new table
_QUIET: Final = 400  # milliseconds without a change of the words


class RerankController(Topic, QObject):
    """Ranks by changed words and judges by changed limits; live mode does it itself."""

    def __init__(self, session: Session, store: ModelStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session, self._store = session, store
        self.worker = Worker("latest", "Applying words and limits", self._reread, parent=self)
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
        self.worker.drop()

    def _run_changed(self, run: RunState) -> None:
        if not run.running:
            self._look()

    def _look(self, _: object = None) -> None:
        session, record = self._session, self._session.run.record
        if self._other_words():
            self._pause.throttle()
            return
        self._pause.cancel()
        self.worker.drop()
        if record is None or session.run.live:
            return
        # Also during a run, whose results have the limits of its start.
        info, words = record.results.info, session.run.vocabulary
        then = None if info.vocabulary is None else info.vocabulary.threshold
        threshold = then if words is None else words.threshold
        if (then, info.settings.unsure) != (threshold, session.run.settings.unsure):
            self.worker.start(
                partial(_judge, record.results, threshold, session.run.settings.unsure)
            )

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
            self.worker.start(partial(_rank, load, record.results, session.run.vocabulary))

    def _reread(self, answer: Reread | None) -> None:
        record: ResultRecord | None = self._session.run.record
        if answer is not None and record is not None and record.results is answer[0]:
            self._session.show(record.changed(results=answer[1], table=answer[2]))


def _judge(before: Results, threshold: float | None, unsure: UncertaintyConfig) -> Reread:
    after = before.with_threshold(threshold).with_limits(unsure)
    return before, after, after.to_frame()


def _rank(load: Callable[[], Backbone], before: Results, vocabulary: Vocabulary) -> Reread | None:
    start_torch()
    from ...pipeline.reranking import rerank

    model = load()
    if getattr(model, "fingerprint", "") != before.info.fingerprint:
        return None  # a new run is needed
    after = rerank(model, before, vocabulary)
    return before, after, after.to_frame()
