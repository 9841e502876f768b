"""Part 4: estimate, buttons and progress of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

from ...base import progress_words as words
from ..widgets.keys import PANEL, shortcut
from ..widgets.sections import note
from .live_widget import LiveWidget

if TYPE_CHECKING:
    from ..workers.updates import Update

_WHOLE = 1000  # of the progress bar


class RunWidget(QWidget):
    """Estimate, Run, Cancel, Live, progress.

    Parameters
    ----------
    live : LiveWidget
        Its switch is next to the buttons, its status line below the progress bar.
    """

    def __init__(self, live: LiveWidget) -> None:
        super().__init__()
        self.estimate = note()
        self.run = QPushButton("Run")
        key = shortcut(PANEL, "run")
        self.run.setToolTip(f"Find the best label of every region ({key.toString()})")
        self.run.setShortcut(key)
        self.cancel = QPushButton("Cancel")
        self.cancel.setToolTip("Stop at the next step; finished regions are kept")
        self.progress = QProgressBar()
        self.progress.setAccessibleName("Progress")
        self.progress.setRange(0, _WHOLE)
        buttons = QWidget()
        row = QHBoxLayout(buttons)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.run, 2)
        row.addWidget(self.cancel, 1)
        row.addWidget(live.switch)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 2, 2, 6)
        layout.setSpacing(4)
        for item in (self.estimate, buttons, self.progress, live.line):
            layout.addWidget(item)

    def show_running(self, running: bool, count: int) -> None:
        """Show that a run is at work, or over with ``count`` regions."""
        self.run.setEnabled(not running)
        self.cancel.setEnabled(running)
        self.progress.setValue(0)
        done = f"{count} region{'s' * (count != 1)} done" if count else "Ready"
        self.progress.setFormat(f"{words.STARTING} ..." if running else done)

    def show_update(self, update: Update) -> None:
        """Show the progress of a run, unless it is being stopped."""
        if update.note:
            self.show_estimate(update.note)
        if not self.cancel.isEnabled():
            return  # the bar says "Stopping"
        # Qt's busy bar for an unknown fraction would show no text.
        self.progress.setValue(round(_WHOLE * (update.fraction or 0)))
        self.progress.setFormat(update.text)

    def show_stopping(self) -> None:
        """Show that the run stops at its next step."""
        self.cancel.setEnabled(False)
        self.progress.setFormat(f"{words.STOPPING} ...")

    def show_estimate(self, text: str) -> None:
        """Show the estimate, or what a run changed because memory ran out."""
        self.estimate.setText(text)
        self.estimate.setVisible(bool(text))
