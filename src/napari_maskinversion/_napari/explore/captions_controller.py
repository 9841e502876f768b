"""Connects caption banks, runs and results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject

from ...base.errors import InputError
from ...results.results import Results
from ..run_requests.preparing import check_on_disk
from ..run_requests.request import BankChoice
from ..session import Bindings, Session, same_regions
from ..widgets.sections import Section
from ..workers.model_store import ModelStore
from ..workers.notify import inform, refuse
from ..workers.updates import Update
from ..workers.worker import Worker
from .caption_banks import BuildRequest, KnownBank, SearchRequest, build, search
from .captions_widget import CaptionsWidget
from .generate_controller import GenerateController


class CaptionsController(QObject):
    """Opens, builds and searches banks outside the GUI thread."""

    def __init__(self, session: Session, store: ModelStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.part = part = CaptionsWidget()
        self.section = Section(
            "Captions", part, opened=False, tip="Sentences about regions, from a file or generated"
        )
        self._session = session
        self._bindings = Bindings()
        self._store = store
        self.generating = GenerateController(session, part.generated, self)
        kept = "The captions that are embedded are kept."
        self.runner = Worker("single", "The caption bank", kept=kept, parent=self)
        self._opening = Worker("latest", "Opening the caption bank", parent=self)
        part.chosen.connect(self.refresh)
        part.build_requested.connect(self.build)
        part.open_requested.connect(self.open)
        part.continue_requested.connect(self.resume)
        part.search_requested.connect(self.search)
        part.progress.cancelled.connect(self.runner.cancel)
        part.top.valueChanged.connect(self.refresh)
        self._opening.done.connect(part.add)
        self._opening.failed.connect(refuse)
        self.runner.progressed.connect(part.progress.update_from)
        self.runner.progressed.connect(self._show_note)
        self.runner.done.connect(self._on_finished)
        self.runner.failed.connect(refuse)
        self.runner.ended.connect(self._on_end)

    def follow(self) -> None:
        """Follow the session."""
        events = self._session.events
        self._bindings.connect((events.settings, events.record), self.refresh)
        self.generating.follow()
        self.refresh()

    def _choose(self, known: KnownBank | None, problem: str) -> None:
        """Pass the bank of the next run to the session."""
        choice = None
        if known is not None and known.bank is None:
            problem = (
                f"The caption bank '{known.title}' cannot be used yet: {known.about} Or choose "
                "'no captions' there."
            )
        elif known is not None and known.bank is not None:
            choice = BankChoice(known.bank, self.part.top.value())
        self._session.captions, self._session.captions_problem = choice, problem
        self.generating.use_memory(None if choice is None else choice.bank)

    def build(self, file: Path) -> None:
        """Build a bank from a file of captions with the chosen model."""
        if self._may_build():
            self._start(
                BuildRequest(
                    file=file,
                    column=self.part.column.text().strip() or None,
                    encoding=self.part.encoding.text().strip() or None,
                    model=self._session.settings.model,
                    device=self._session.settings.device,
                )
            )

    def resume(self) -> None:
        """Continue the chosen half-built bank."""
        known = self.part.bank
        if known is None or not self._may_build():
            return
        problem = self._problem(known)
        if problem:
            refuse(problem)
            return
        settings = self._session.settings
        self._start(BuildRequest(folder=known.folder, model=settings.model, device=settings.device))

    def open(self, folder: Path) -> None:
        """Open a bank, finished or half built."""
        self._opening.start(partial(KnownBank.open, folder))

    def search(self) -> None:
        """Add captions to the regions of the results."""
        known, results = self.part.bank, self._session.results
        if known is not None and known.bank is not None and results is not None and len(results):
            top = self.part.top.value()
            self._start(SearchRequest(results=results, bank=known.bank, top=top))

    def refresh(self, _: Any = None) -> None:
        """Enable what can be done now."""
        known, results = self.part.bank, self._session.results
        ours = known is not None and results is not None and len(results) > 0
        if ours and known is not None and results is not None:
            ours = known.record.fingerprint == results.info.fingerprint
        problem = "" if known is None else self._problem(known)
        self._choose(known, problem)
        self.part.show_state(running=self.runner.busy, searchable=ours, problem=problem)

    def stop(self) -> None:
        """Stop; embedded captions are kept."""
        self._bindings.release()
        self.runner.drop()
        self._opening.drop()
        self.generating.stop()
        self._on_end()

    def _problem(self, known: KnownBank) -> str:
        """Return why a bank does not fit the chosen model; empty if it does."""
        try:
            known.check_model(self._session.settings.model)
        except InputError as error:
            return str(error)
        return ""

    def _may_build(self) -> bool:
        if self.runner.busy:
            return False
        try:
            check_on_disk(self._session.settings.model)
        except InputError as error:
            refuse(str(error))
            return False
        return True

    def _start(self, request: BuildRequest | SearchRequest) -> None:
        if self.runner.busy:
            return
        self.part.progress.begin()
        if isinstance(request, BuildRequest):
            self.runner.start(partial(build, request, self._store))
        else:
            self.runner.start(partial(search, request))
        self.refresh()

    def _show_note(self, update: Update) -> None:
        if update.note:
            self.part.about.setText(update.note)

    def _on_finished(self, outcome: Any) -> None:
        if isinstance(outcome, KnownBank):
            self.part.add(outcome)
            if outcome.bank is None:
                inform(outcome.about)
            return
        before, after = outcome
        # Results of a newer run are other ones.
        record = self._session.record
        if record is not None and same_regions(record.results, before):
            self._session.show(
                record.changed(results=_captioned(record.results, after), table=None)
            )

    def _on_end(self) -> None:
        self.part.progress.hide()
        self.refresh()


def _captioned(results: Results, after: Results) -> Results:
    """Return results with the captions of the bank that were searched meanwhile."""
    regions = (
        replace(region, captions=searched.captions)
        for region, searched in zip(results.regions, after.regions, strict=True)
    )
    return Results(replace(results.info, captions=after.info.captions), tuple(regions))
