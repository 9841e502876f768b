"""Keeps the results shown in step with the words: changed words rank their regions again."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject

from ...base.errors import MaskInversionError
from ..run_requests.preparing import check_model
from ..session import Bindings, Session
from ..widgets.sections import debouncer
from ..workers.driver import often
from ..workers.model_store import ModelStore
from ..workers.preload import start_torch
from ..workers.worker import Worker

if TYPE_CHECKING:
    import pandas as pd

    from ...language.labels.vocabulary import Vocabulary
    from ...results.results import Results

_QUIET: Final = 400  # milliseconds without a change of the words


@dataclass(frozen=True, slots=True, eq=False)
class Reranked:
    """Results before and after, and the new table."""

    before: Results
    after: Results
    table: pd.DataFrame


class RerankController(QObject):
    """Ranks regions again in a worker, from their stored embeddings; live mode does it itself.

    Parameters
    ----------
    session : Session
    store : ModelStore
    """

    def __init__(self, session: Session, store: ModelStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session, self._store, self._bindings = session, store, Bindings()
        self.worker = Worker("latest", "Ranking by the new words", parent=self)
        self.worker.done.connect(self._reranked)
        self._pause = debouncer(self, _QUIET, self._start)

    def follow(self) -> None:
        """Follow the session."""
        names = ("vocabulary", "record", "live", "run")
        events = self._session.events
        self._bindings.connect([events[name] for name in names], self._later)

    def stop(self) -> None:
        """Follow the session no more."""
        self._bindings.release()
        self._pause.cancel()
        self.worker.drop()

    def _later(self, _: object) -> None:
        if self._needed():
            self._pause.throttle()
        else:
            self._pause.cancel()
            self.worker.drop()

    def _needed(self) -> bool:
        session = self._session
        return bool(session.stale.words and session.results) and not (
            session.live or session.run.running
        )

    def _start(self) -> None:
        session = self._session
        record = session.record
        if not self._needed() or record is None:
            return
        try:
            # Fetching is for a run: these results stay as they are, and are marked.
            check_model(record.snapshot.settings)
        except MaskInversionError:
            return
        settings = record.snapshot.settings
        load = partial(self._store.get, settings.model, settings.device)
        self.worker.start(partial(_rerank, load, record.results, session.vocabulary))

    def _reranked(self, answer: Reranked | None) -> None:
        record = self._session.record
        if answer is not None and record is not None and record.results is answer.before:
            self._session.show(record.changed(results=answer.after, table=answer.table))


def _rerank(
    load: Any, before: Results, vocabulary: Vocabulary
) -> Generator[Any, None, Reranked | None]:
    yield from start_torch()
    from ...pipeline.reranking import rerank

    model = load()
    if getattr(model, "fingerprint", "") != before.info.fingerprint:
        return None  # a new run is needed
    after = yield from often(rerank(model, before, vocabulary), lambda progress: progress.text)
    return Reranked(before, after, after.to_frame())
