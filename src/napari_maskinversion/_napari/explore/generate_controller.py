"""Connects decoders of captions and results."""

from __future__ import annotations

from functools import partial
from typing import Any

from qtpy.QtCore import QObject

from ...base.errors import MaskInversionError
from ...language.captions.bank import CaptionBank
from ...pipeline.captions.generating import CaptionRequest
from ..session import Bindings, Session, same_regions
from ..workers.notify import refuse
from ..workers.worker import Worker
from .generate_task import GenerateRequest, generate
from .generate_widget import GenerateWidget

_NO_RESULTS = "Suggest words first: sentences are written from the embeddings of the results."


class GenerateController(QObject):
    """Writes sentences outside the GUI thread."""

    def __init__(
        self, session: Session, part: GenerateWidget, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.part, self._session = part, session
        self._bindings = Bindings()
        self._memory: CaptionBank | None = None
        self.runner = Worker("single", "Writing captions", parent=self)
        part.changed.connect(self.refresh)
        part.generate_requested.connect(self.generate)
        part.progress.cancelled.connect(self.runner.cancel)
        self.runner.progressed.connect(part.progress.update_from)
        self.runner.done.connect(self._on_finished)
        self.runner.failed.connect(refuse)
        self.runner.ended.connect(self._on_end)

    def follow(self) -> None:
        """Follow the session."""
        events = self._session.events
        self._bindings.connect(events.record, self.refresh)
        self._bindings.connect(events.row, self._show_sentence)
        self.refresh()

    def use_memory(self, bank: CaptionBank | None) -> None:
        """Use a bank as the memory of DeCap checkpoints."""
        self._memory = bank
        self.refresh()

    @property
    def request(self) -> CaptionRequest:
        """What is chosen."""
        part = self.part
        memory = self._memory if part.spec.memory else None
        return CaptionRequest(
            decoder=part.spec.name, file=part.file, memory=memory, settings=part.settings
        )

    def generate(self) -> None:
        """Write a sentence about each region of the results."""
        results = self._session.results
        if self.runner.busy or results is None or self._problem():
            return
        self.part.progress.begin()
        request = GenerateRequest(
            results=results, captions=self.request, device=self._session.settings.device
        )
        self.runner.start(partial(generate, request))
        self.refresh()

    def refresh(self, _: Any = None) -> None:
        """Enable what can be done now."""
        self.part.show_state(running=self.runner.busy, problem=self._problem())
        self._show_sentence()

    def stop(self) -> None:
        """Stop."""
        self._bindings.release()
        self.runner.drop()
        self._on_end()

    def _show_sentence(self, _: Any = None) -> None:
        results, row = self._session.results, self._session.row
        text = ""
        if results is not None and 0 <= row < len(results):
            region = results.regions[row]
            if region.generated_caption:
                text = f"Region {region.id}: {region.generated_caption}"
        self.part.sentence.say(text)

    def _problem(self) -> str:
        """Return why nothing can be written now; "" if it can."""
        results = self._session.results
        if results is None or not len(results):
            return _NO_RESULTS
        try:
            self.request.check(results.info.model, results.info.method)
        except MaskInversionError as error:
            return str(error)
        return ""

    def _on_finished(self, outcome: Any) -> None:
        before, after = outcome
        # Results of a newer run are other ones; captions of a bank may have been added meanwhile.
        record = self._session.record
        if record is not None and same_regions(record.results, before):
            sentences = [region.generated_caption for region in after.regions]
            captioned = record.results.with_generated(sentences, after.info.generated)
            self._session.show(record.changed(results=captioned, table=None))

    def _on_end(self) -> None:
        self.part.progress.hide()
        self.refresh()
