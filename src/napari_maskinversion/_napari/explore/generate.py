"""Captions: sentences written by a decoder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from psygnal import SignalInstance
from qtpy.QtCore import Qt

from ...app.session import job_kinds
from ...app.work.driver import Job, show
from ...app.work.preload import preload_torch
from ...base import progress_words as words
from ...base.errors import MaskInversionError
from ...language.generation.registry import DECODERS, DecoderSpec
from ...language.generation.settings import GenerationSettings
from ...pipeline.caption_ranking import CaptionRequest, generate_captions, model_of_run
from ...results.results import Results
from ...results.settings import fields_of
from ..widgets.dialogs import ask_file
from ..widgets.form import SettingsForm
from ..widgets.sections import Note, Section, button, combo_box, form, line, stack
from .work_section import ProgressSection, Shared

_NO_RESULTS: Final = (
    "Suggest words first: sentences are written from the embeddings of the results."
)


class GenerateSection(ProgressSection):
    """The choice of a decoder and of how it writes."""

    title, opened = "Generate", True
    kind = job_kinds.GENERATE
    doing, cancel_tip = "writing captions", "Stop; the results stay as they are"

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.file: Path | None = None
        self.decoder = combo_box(list(DECODERS), tip="What writes the sentences")
        for place, spec in enumerate(DECODERS.values()):
            self.decoder.setItemData(place, spec.title, Qt.ItemDataRole.ToolTipRole)
        self.weights = button("File...", "Use weights of your own for this decoder", self.ask_file)
        self.about = Note(name="About the decoder")
        tip = "Write a sentence about each region of the results"
        self.generate = button("Generate", tip, self.run)
        self.sentence = Note(name="Sentence about the selected region")
        self.options = SettingsForm(fields_of(model=GenerationSettings), parent=self)
        self._options = options = form(list(self.options.rows().values()))
        rows = [
            ("Decoder", line(self.decoder, self.weights)),
            self.about,
            self.generate,
            self.progress,
            self.sentence,
        ]
        stack(self, form(rows), Section("How sentences are written", options, opened=False))
        self.decoder.currentIndexChanged.connect(lambda _: self.choose_file(None))
        self.options.changed.connect(self.refresh)

    def followed(self) -> tuple[SignalInstance, ...]:
        """Return the events of the session after which it is refreshed."""
        # A caption bank may be the memory of a DeCap checkpoint.
        run = self._session.run.events
        return run.record, run.captions

    @property
    def spec(self) -> DecoderSpec:
        """The chosen decoder."""
        return DECODERS[self.decoder.currentText()]

    @property
    def request(self) -> CaptionRequest:
        """What is chosen."""
        chosen = self._session.run.captions
        return CaptionRequest(
            decoder=self.spec.name,
            file=self.file,
            memory=chosen[0] if chosen is not None and self.spec.memory else None,
            settings=GenerationSettings(**self.options.values()),
        )

    def choose_file(self, file: Path | None) -> None:
        """Use a file of weights; None stands for the published ones."""
        self.file = file
        self.refresh()

    def ask_file(self) -> None:
        """Ask for a file of weights."""
        kinds = "Weights (*.pt *.pth *.safetensors);;All files (*)"
        if file := ask_file(self, "Weights of a decoder", kinds):
            self.choose_file(file)

    # -- for the panel ------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session."""
        super().bind()
        review = self._session.review.events
        self.after(self._show_sentence, review.row)

    def refresh(self, _: object = None) -> None:
        """Enable what can be done now, or say why nothing can be written."""
        spec, problem, running = self.spec, self._problem, self.job.busy
        about = [f"{spec.title}."]
        if self.file is not None:
            about.append(f"Weights: {self.file.name}.")
        elif not spec.is_on_disk:
            about.append(f"{spec.size_text} are fetched first (licence {spec.license}).")
        self.about.setText(problem or " ".join(about))
        for widget in (self.decoder, self.weights, self._options):
            widget.setEnabled(not running)
        self.generate.setEnabled(not running and not problem)
        for name in ("beams", "temperature"):
            self.options[name].setEnabled(self.options.values()["search"] == "beam")
        self._show_sentence()

    def _show_sentence(self, _: object = None) -> None:
        results, row = self._session.run.results, self._session.review.row
        text = ""
        if results is not None and 0 <= row < len(results):
            region = results.regions[row]
            if region.generated_caption:
                text = f"Region {region.id}: {region.generated_caption}"
        self.sentence.say(text)

    @property
    def _problem(self) -> str:
        """Why nothing can be written now; "" if it can."""
        results = self._session.run.results
        if not results:
            return _NO_RESULTS
        try:
            self.request.check(results.info.model, results.info.method)
        except MaskInversionError as error:
            return str(error)
        return ""

    # -- the work -----------------------------------------------------------------------------

    def run(self) -> None:
        """Write a sentence about each region of the results."""
        results = self._session.run.results
        if results is not None and not self._problem:
            device = self._session.run.settings.device
            self.start(partial(generate, results, self.request, device))

    def answered(self, after: Results) -> None:
        """Show the sentences."""
        sentences = [region.generated_caption for region in after.regions]
        generated = after.info.generated
        assert generated is not None  # they were
        # To these captions of a bank may have been added meanwhile.
        self.change_results(lambda results: results.with_generated(sentences, generated))


def generate(results: Results, captions: CaptionRequest, device: str) -> Results:
    """Write a sentence about each region, in a worker."""
    from ...engine.compute.devices import choose_device

    show(Job(text=words.READING_DECODER))
    preload_torch()
    decoder = captions.load(model_of_run(results.info), choose_device(device))
    show(Job(text=words.counted("Captions", 0, len(results))))
    return generate_captions(results, decoder)
