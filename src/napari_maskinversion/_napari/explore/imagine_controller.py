"""Draws what the selected region's embedding shows."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject

from ...base.errors import InputError, MaskInversionError
from ...diffusion.pictures import Imagined, Picture, title_of
from ..run_requests.run_source import RunSource
from ..session import Bindings, ResultRecord, Session, same_run
from ..widgets.sections import Section, debouncer
from ..workers.model_store import ModelStore
from ..workers.notify import inform, refusing
from ..workers.updates import Update
from ..workers.worker import Worker
from .imagine_task import DrawRequest, KeptDecoder, check, draw_region
from .imagine_widget import ImagineWidget

_PAUSE = 300  # milliseconds after an edit


class ImagineController(QObject):
    """Checks what a drawing needs while its section is open, and draws in a worker."""

    def __init__(
        self, viewer: Any, session: Session, store: ModelStore, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.part = part = ImagineWidget()
        self.section = Section(
            "What the embedding shows",
            part,
            opened=False,
            tip="Pictures drawn from the region's embedding",
        )
        self._viewer, self._session, self._store = viewer, session, store
        self._bindings = Bindings()
        self._kept = KeptDecoder()  # used in the worker
        self._record: ResultRecord | None = None
        self._imagined: Imagined | None = None
        self._first_seed: int | None = None  # of the pictures in view
        self.worker = Worker("single", "The drawing", parent=self)
        self.checker = Worker("latest", "The check of the decoder", parent=self)
        self._checking = debouncer(self, _PAUSE, self._check)
        part.edited.connect(self.refresh)
        part.draw_requested.connect(self.draw)
        part.save_requested.connect(self.save)
        part.progress.cancelled.connect(self.worker.cancel)
        self.section.toggled.connect(self._toggled)
        self.checker.done.connect(part.say)
        self.checker.failed.connect(part.say)
        self.worker.progressed.connect(self._progressed)
        self.worker.done.connect(self._drawn)
        self.worker.failed.connect(self._refuse)
        self.worker.ended.connect(self._ended)

    def follow(self) -> None:
        """Follow the session."""
        events = self._session.events
        self._bindings.connect((events.record, events.row, events.settings), self.refresh)
        self.refresh()

    def refresh(self, _: Any = None) -> None:
        """Show what can be drawn now, and what it needs."""
        record = self._session.record
        before, self._record = self._record, record
        if before is not None and (record is None or not same_run(before, record)):
            self.worker.drop()
            self._forget()
        self._show_state()
        if self.section.isExpanded() and not self.worker.busy:
            self._checking.throttle()

    def draw(self) -> None:
        """Draw the selected region, or say why not."""
        if self.worker.busy:
            return
        try:
            wanted = self._wanted()
        except MaskInversionError as error:
            self._refuse(str(error))
            return
        self._session.settle("imagine")
        self._first_seed = None  # earlier pictures stay in view until the first new one
        self.part.progress.begin()
        self.worker.start(partial(draw_region, wanted, self._store, self._kept))
        self._show_state()

    def save(self, folder: Path) -> None:
        """Write the pictures to a folder."""
        if self._imagined is None:
            return
        with refusing():
            files = self._imagined.save(folder)
            inform(f"Wrote {', '.join(file.name for file in files)} in {folder}")

    def stop(self) -> None:
        """Stop, and release decoder and pictures."""
        self._bindings.release()
        self.worker.drop()
        self.checker.drop()
        self._record = None
        self._forget()
        self._kept.release()
        self._ended()

    def release(self) -> None:
        """Forget the decoder; the next picture loads it again."""
        self._kept.release()

    def _wanted(self) -> DrawRequest:
        record, row = self._session.record, self._session.row
        if record is None or not 0 <= row < len(record.results):
            raise InputError("Suggest words first, and select the region to draw in the table.")
        if self._session.run.running:
            raise InputError("Wait until the run is over.")
        origin, region = RunSource.of(record), record.results.regions[row]
        return DrawRequest(
            request=self.part.request(self._session.settings.device),
            origin=origin,
            run_input=origin.again(self._viewer, region, drawn=False),
            region=region,
            info=record.results.info,
        )

    def _toggled(self, opened: bool) -> None:
        if opened:
            self.refresh()
        elif not self.worker.busy:
            self._kept.release()

    def _check(self) -> None:
        """Check in a worker whether it can be drawn."""
        model = self._session.settings.model
        device = self._session.settings.device
        if self._record is not None:
            model = self._record.results.info.model
        try:
            request = self.part.request(device)
        except MaskInversionError as error:
            self.checker.drop()
            self.part.say(str(error))
            return
        loaded = self._store.has(model, device)
        self.checker.start(partial(check, request, model, loaded=loaded))

    def _progressed(self, news: Any) -> None:
        if isinstance(news, Update):
            self.part.progress.update_from(news)
        elif isinstance(news, Picture):
            if self._first_seed is None:
                self._clear()
                self._first_seed = news.seed
            self.part.add(news, 0 if news.regions else 1, news.seed - self._first_seed)

    def _drawn(self, imagined: Imagined) -> None:
        self._imagined = imagined

    def _refuse(self, reason: str) -> None:
        if reason == self.part.said:
            return  # the line above the button says it already
        self._session.refuse("imagine", reason)

    def _ended(self) -> None:
        self.part.progress.hide()
        self._show_state()

    def _forget(self) -> None:
        self._clear()
        self.part.progress.hide()

    def _clear(self) -> None:
        self._imagined = None
        self.part.clear()

    def _show_state(self) -> None:
        results, row = self._session.results, self._session.row
        region = ""
        if results is not None and 0 <= row < len(results):
            chosen = results.regions[row]
            region = title_of(chosen.members or (chosen.id,))
        self.part.show_state(
            running=self.worker.busy, region=region, saveable=self._imagined is not None
        )
