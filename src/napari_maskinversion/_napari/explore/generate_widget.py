"""Captions: sentences written by a decoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QDoubleSpinBox, QFileDialog, QPushButton, QSpinBox, QWidget

from ...language.generation.registry import DECODERS, DecoderSpec
from ...language.generation.settings import (
    NORMS,
    SEARCHES,
    GenerationSettings,
    Norm,
    Search,
    describe,
)
from ..widgets.progress_row import ProgressRow
from ..widgets.sections import Note, Section, combo_box, form, line, stack

_USUAL = GenerationSettings()


class GenerateWidget(QWidget):
    """The choice of a decoder and of how it writes.

    Signals
    -------
    changed
        Another decoder, file or setting was chosen.
    generate_requested
    """

    changed = Signal()
    generate_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.file: Path | None = None
        self.decoder = combo_box(list(DECODERS), tip="What writes the sentences")
        for place, spec in enumerate(DECODERS.values()):
            self.decoder.setItemData(place, spec.title, Qt.ItemDataRole.ToolTipRole)
        self.weights = QPushButton("File...")
        self.weights.setToolTip("Use weights of your own for this decoder")
        self.about = Note(name="About the decoder")
        self.generate = QPushButton("Generate")
        self.generate.setToolTip("Write a sentence about each region of the results")
        self.sentence = Note(name="Sentence about the selected region")
        self.progress = ProgressRow("writing captions", "Stop; the results stay as they are")
        self.search = combo_box(SEARCHES, tip=describe("search"))
        self.beams = _whole("beams", _USUAL.beams, 1, 50)
        self.temperature = _number("temperature", _USUAL.temperature, 0.05, 100.0)
        self.norm = combo_box(NORMS, tip=describe("norm"))
        options = form(
            [
                ("Words", self.search),
                ("Beams", self.beams),
                ("Temperature", self.temperature),
                ("Norm", self.norm),
            ]
        )
        self._options = options
        rows = [
            ("Decoder", line(self.decoder, self.weights)),
            self.about,
            self.generate,
            self.progress,
            self.sentence,
        ]
        stack(self, form(rows), Section("How sentences are written", options, opened=False))
        self.decoder.currentIndexChanged.connect(self._forget_file)
        self.search.currentIndexChanged.connect(lambda _: self._show_options())
        self.norm.currentIndexChanged.connect(lambda _: self.changed.emit())
        self.weights.clicked.connect(lambda _=False: self.ask_file())
        self.generate.clicked.connect(lambda _=False: self.generate_requested.emit())
        self._show_options()

    @property
    def spec(self) -> DecoderSpec:
        """The chosen decoder."""
        return DECODERS[self.decoder.currentText()]

    @property
    def settings(self) -> GenerationSettings:
        """How sentences are written."""
        search: Search = SEARCHES[self.search.currentIndex()]
        norm: Norm = NORMS[self.norm.currentIndex()]
        return GenerationSettings(
            search=search,
            beams=self.beams.value(),
            temperature=self.temperature.value(),
            norm=norm,
        )

    def show_state(self, *, running: bool, problem: str) -> None:
        """Enable what can be done now; ``problem`` says why nothing can be written."""
        spec = self.spec
        about = [f"{spec.title}."]
        if self.file is not None:
            about.append(f"Weights: {self.file.name}.")
        elif not spec.is_on_disk:
            about.append(f"{spec.size_text} are fetched first (licence {spec.license}).")
        self.about.setText(problem or " ".join(about))
        for widget in (self.decoder, self.weights, self._options):
            widget.setEnabled(not running)
        self.generate.setEnabled(not running and not problem)

    def choose_file(self, file: Path | None) -> None:
        """Use a file of weights; None stands for the published ones."""
        self.file = file
        self.changed.emit()

    def ask_file(self) -> None:
        """Ask for a file of weights."""
        path, _ = QFileDialog.getOpenFileName(
            self, "Weights of a decoder", "", "Weights (*.pt *.pth *.safetensors);;All files (*)"
        )
        if path:
            self.choose_file(Path(path))

    def _forget_file(self, _: Any = None) -> None:
        self.choose_file(None)

    def _show_options(self) -> None:
        search = SEARCHES[self.search.currentIndex()]
        self.beams.setEnabled(search == "beam")
        self.temperature.setEnabled(search == "beam")


def _whole(name: str, value: int, least: int, most: int) -> QSpinBox:
    box = QSpinBox()
    box.setRange(least, most)
    box.setValue(value)
    box.setToolTip(describe(name))
    return box


def _number(name: str, value: float, least: float, most: float) -> QDoubleSpinBox:
    box = QDoubleSpinBox()
    box.setRange(least, most)
    box.setSingleStep(0.05)
    box.setValue(value)
    box.setToolTip(describe(name))
    return box
