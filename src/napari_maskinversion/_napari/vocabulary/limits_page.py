"""Prompts, as the page "Words and limits" of the settings shows them."""

from __future__ import annotations

from qtpy.QtCore import QObject, Signal
from qtpy.QtGui import QFontMetrics
from qtpy.QtWidgets import QPlainTextEdit

from ...base.errors import InputError
from ...language.labels.label import TEMPLATES, check_templates
from ..widgets.sections import Note, combo_box

OWN = "own..."
_LINES = 3


class TemplatesWidget(QObject):
    """Presets of prompts, and a field for your own, checked while you type."""

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.sets = combo_box(name="Prompts", tip="Sentences into which each word is inserted")
        for name, sentences in TEMPLATES.items():
            shown = sentences[0].format("word")
            more = f" and {len(sentences) - 1} more" if len(sentences) > 1 else ""
            self.sets.addItem(f"{name}: {shown}{more}", name)
        self.sets.addItem(OWN, OWN)
        self.own = QPlainTextEdit()
        self.own.setAccessibleName("Own prompts, one per line")
        self.own.setToolTip(
            "Prompts, one per line, with {} for the word; their embeddings are averaged."
        )
        self.own.setPlaceholderText("a photo of a {}.\na drawing of a {}.")
        self.own.setTabChangesFocus(True)
        line = QFontMetrics(self.own.font()).lineSpacing()
        self.own.setFixedHeight(_LINES * line + 14)
        self.problem = Note()
        self._last = str(self.sets.currentData())
        self.sets.currentIndexChanged.connect(lambda _: self._chosen())
        self.own.textChanged.connect(self._look)
        self._look()

    def templates(self) -> tuple[str, ...]:
        """Return the prompts."""
        chosen = str(self.sets.currentData())
        if chosen != OWN:
            return TEMPLATES[chosen]
        return check_templates(tuple(self._typed()))

    def choose(self, templates: tuple[str, ...]) -> None:
        """Show prompts: as a preset if they are one, else as own prompts."""
        for name, sentences in TEMPLATES.items():
            if sentences == templates:
                self.sets.setCurrentIndex(self.sets.findData(name))
                return
        self.own.setPlainText("\n".join(templates))
        self.sets.setCurrentIndex(self.sets.findData(OWN))

    def _typed(self) -> list[str]:
        lines = self.own.toPlainText().splitlines()
        return [line.strip() for line in lines if line.strip()]

    def _chosen(self) -> None:
        chosen = str(self.sets.currentData())
        if chosen == OWN and not self._typed():
            # Start from the preset chosen before.
            self.own.setPlainText("\n".join(TEMPLATES.get(self._last, ())))
        self._last = chosen
        self._look()

    def _look(self) -> None:
        problem = ""
        try:
            self.templates()
        except InputError as error:
            problem = str(error)
        self.own.setVisible(self.sets.currentData() == OWN)
        self.problem.say(problem)
        self.changed.emit()
