"""Part 3: the words to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qtpy.QtGui import QFontMetrics
from qtpy.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QPlainTextEdit,
    QPushButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from ..core.errors import MaskInversionError
from ..retrieval.vocabulary import TEMPLATES, Vocabulary, to_text
from .notify import refuse
from .sections import form, note

_LINES = 4


class VocabularyPart(QWidget):
    """Labels, one per line, and how a label becomes a sentence."""

    def __init__(self) -> None:
        super().__init__()
        self._prefilled = ""
        self.text = QPlainTextEdit()
        self.text.setPlaceholderText("One label per line, for example\ndog\ncat\nsofa")
        self.text.setAccessibleName("Labels, one per line")
        self.text.setTabChangesFocus(True)  # Tab goes on, as everywhere else in the panel
        line = QFontMetrics(self.text.font()).lineSpacing()
        self.text.setFixedHeight(_LINES * line + 14)
        self.templates = QComboBox()
        self.templates.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        for name, sentences in TEMPLATES.items():
            shown = sentences[0].format("label")
            more = f" and {len(sentences) - 1} more" if len(sentences) > 1 else ""
            self.templates.addItem(f"{name}: {shown}{more}", name)
        self.templates.setToolTip("The sentences that a label is put into before it is compared.")
        self.count = note()
        self.load = QPushButton("Load...")
        self.load.setToolTip("Read labels from a text file, one per line")
        self.load.clicked.connect(self.ask_file)
        row = QWidget()
        buttons = QHBoxLayout(row)
        buttons.setContentsMargins(0, 0, 0, 0)
        buttons.addWidget(self.count, 1)
        buttons.addWidget(self.load)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(form([self.text, row, ("Prompts", self.templates)]))
        self.text.textChanged.connect(self._count)
        self._count()

    def vocabulary(self) -> Vocabulary:
        """Return what was typed.

        Raises
        ------
        InputError
            If there are no labels.
        """
        templates = TEMPLATES[str(self.templates.currentData())]
        return Vocabulary.parse(self.text.toPlainText(), templates)

    def prefill(self, labels: Sequence[str]) -> None:
        """Fill in labels, unless the user has typed some."""
        if labels and self.text.toPlainText() in ("", self._prefilled):
            self._prefilled = to_text(labels)
            self.text.setPlainText(self._prefilled)

    def set_colors(self, field: str) -> None:
        """Follow the theme: napari leaves text fields of this kind without a visible edge."""
        self.text.setStyleSheet(f"QPlainTextEdit {{ background: {field}; border-radius: 2px; }}")

    def ask_file(self) -> None:
        """Ask for a text file and read its labels."""
        path, _ = QFileDialog.getOpenFileName(
            self, "Load labels", "", "Labels (*.txt *.csv *.yaml *.yml);;All files (*)"
        )
        if path:
            self.read(Path(path))

    def read(self, path: Path) -> None:
        """Replace the labels by those of a file."""
        try:
            labels = Vocabulary.read(path).entries
        except MaskInversionError as error:
            refuse(str(error))
            return
        self.text.setPlainText(to_text(labels))

    def _count(self) -> None:
        try:
            number = len(Vocabulary.parse(self.text.toPlainText()).labels)
        except MaskInversionError:
            number = 0
        self.count.setText(f"{number} label{'s' * (number != 1)}" if number else "no labels yet")
