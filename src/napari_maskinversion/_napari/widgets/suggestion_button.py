"""A button that accepts one label: its key, its colour, its name, its confidence."""

from __future__ import annotations

from typing import Final

from qtpy.QtCore import Qt
from qtpy.QtGui import QColor, QPixmap
from qtpy.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy
from superqt import QElidingLabel

from ...review.decisions import Suggestion

_CHIP: Final = 10  # pixels


class SuggestionButton(QPushButton):
    """Shows one label that a key accepts; empty and disabled without one."""

    def __init__(self) -> None:
        super().__init__()
        self.label, self._score, self._key, self._chip = (
            QElidingLabel(),
            QLabel(),
            QLabel(),
            QLabel(),
        )
        self._key.setStyleSheet("font-weight: bold;")
        self._key.setMinimumWidth(2 * self.fontMetrics().horizontalAdvance("0"))
        row = QHBoxLayout(self)
        row.setContentsMargins(4, 0, 4, 0)
        row.setSpacing(4)
        row.addWidget(self._key)
        row.addWidget(self._chip)
        row.addWidget(self.label, 1)
        row.addWidget(self._score)
        for part in (self._key, self._chip, self.label, self._score):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(self.fontMetrics().height() + 8)
        self.show_nothing()

    def show_nothing(self) -> None:
        """Show an empty button."""
        self.setEnabled(False)
        for part in (self._key, self.label, self._score):
            part.setText("")
        self._chip.setPixmap(QPixmap())
        self.setAccessibleName("No suggestion")
        self.setToolTip("")

    def show_label(
        self, key: str, label: str, color: str, suggestion: Suggestion | None, *, best: bool
    ) -> None:
        """Show a label."""
        self.setEnabled(True)
        self._key.setText(key)
        chip = QPixmap(_CHIP, _CHIP)
        chip.fill(QColor(color or "transparent"))
        self._chip.setPixmap(chip)
        font = self.label.font()
        if font.bold() != best:
            font.setBold(best)
            self.label.setFont(font)
        score = "" if suggestion is None else f"{100 * suggestion.score:.0f} %"
        self.label.setText(label)
        self._score.setText(score)
        self.setAccessibleName(f"Accept {label}, {score}" if score else f"Accept {label}")
        pressed = f" ({key})" if key else ""
        if suggestion is None:
            self.setToolTip(f"Accept '{label}'{pressed}")
            return
        similarity = ""
        if suggestion.similarity == suggestion.similarity:  # no NaN
            similarity = f"; similarity {suggestion.similarity:.2f}"
        self.setToolTip(f"Accept '{label}'{pressed}: {score} by {suggestion.by}{similarity}")
