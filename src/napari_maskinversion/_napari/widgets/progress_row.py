"""A progress bar with a Cancel button."""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QHBoxLayout, QPushButton, QWidget

from ...base import progress_words as words
from .progress_bar import ProgressBar


class ProgressRow(QWidget):
    """Hidden while nothing runs."""

    cancelled = Signal()

    def __init__(self, what: str, tip: str) -> None:
        super().__init__()
        self.bar = ProgressBar()
        self.bar.setAccessibleName(f"Progress of {what}")
        self.bar.setToolTip(f"Progress of {what}")
        self.cancel = QPushButton("Cancel")
        self.cancel.setAccessibleName(f"Cancel {what}")
        self.cancel.setToolTip(tip)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.bar, 1)
        row.addWidget(self.cancel)
        self.cancel.clicked.connect(self._cancel)
        self.hide()

    def begin(self) -> None:
        """Show the start of the work."""
        self.bar.setRange(0, 1000)
        self.bar.setValue(0)
        self.bar.setFormat(f"{words.STARTING} ...")
        self.cancel.setEnabled(True)
        self.show()

    def update_from(self, update: Any) -> None:
        """Show an `Update`."""
        if self.cancel.isEnabled():
            # Not Qt's busy bar for unknown fractions: it shows no text.
            self.bar.setValue(round(1000 * (update.fraction or 0)))
            self.bar.setFormat(update.text)

    def _cancel(self) -> None:
        self.cancel.setEnabled(False)
        self.bar.setFormat(f"{words.STOPPING} ...")
        self.cancelled.emit()
