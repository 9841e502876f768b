"""A button that accepts one suggestion: its key, its label, its score."""

from __future__ import annotations

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy
from superqt import QElidingLabel

from ...review.decisions import Suggestion


class SuggestionButton(QPushButton):
    """Shows one suggestion; empty and disabled without one.

    Parameters
    ----------
    number : int
        1 for the best; its key.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self.label, self._score = QElidingLabel(), QLabel()
        key = QLabel(str(number))
        key.setStyleSheet("font-weight: bold;")
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 0, 8, 0)
        row.setSpacing(8)
        row.addWidget(key)
        row.addWidget(self.label, 1)
        row.addWidget(self._score)
        for part in (key, self.label, self._score):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(self.fontMetrics().height() + 8)
        self.show_suggestion(None)

    def show_suggestion(self, suggestion: Suggestion | None) -> None:
        """Show a suggestion, or none."""
        self.setEnabled(suggestion is not None)
        if suggestion is None:
            self.label.setText("")
            self._score.setText("")
            self.setAccessibleName(f"Suggestion {self._number}: none")
            self.setToolTip("")
            return
        score = f"{100 * suggestion.score:.0f} %"
        self.label.setText(suggestion.label)
        self._score.setText(score)
        self.setAccessibleName(f"Accept {suggestion.label}, {score}")
        similarity = ""
        if suggestion.similarity == suggestion.similarity:  # no NaN
            similarity = f"; similarity {suggestion.similarity:.2f}"
        self.setToolTip(
            f"Accept '{suggestion.label}' ({self._number}): {score} by {suggestion.by}{similarity}"
        )
