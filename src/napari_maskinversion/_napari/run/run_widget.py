"""Part 4: what a run would take, the buttons that start and stop it, and how it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QHBoxLayout, QProgressBar, QPushButton, QVBoxLayout, QWidget

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
        Its switch stands beside the buttons, its line below the bar.
    """

    def __init__(self, live: LiveWidget) -> None:
        super().__init__()
        self.estimate = note()
        self.run = QPushButton("Run")
        key = shortcut(PANEL, "run")
        self.run.setToolTip(f"Find the best label of every region ({key.toString()})")
        self.run.setShortcut(key)
        self.cancel = QPushButton("Cancel")
        self.cancel.setToolTip("Stop at the next step; regions already finished are kept")
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

    def show_running(self, running: bool, found: int) -> None:
        """Let it be stopped, or started anew after ``found`` regions."""
        self.run.setEnabled(not running)
        self.cancel.setEnabled(running)
        self.progress.setValue(0)
        done = f"{found} region{'s' * (found != 1)} done" if found else "Ready"
        self.progress.setFormat("Starting ..." if running else done)

    def show_update(self, update: Update) -> None:
        """Say how far a run is, unless it is being stopped."""
        if update.note:
            self.show_estimate(update.note)
        if not self.cancel.isEnabled():
            return  # being stopped: the bar says so
        # Not Qt's busy bar where nobody knows the fraction: it shows no text.
        self.progress.setValue(round(_WHOLE * (update.fraction or 0)))
        self.progress.setFormat(update.text)

    def show_stopping(self) -> None:
        """Say that the run ends at its next step."""
        self.cancel.setEnabled(False)
        self.progress.setFormat("Stopping ...")

    def show_estimate(self, text: str) -> None:
        """Say what a run would take, or what it does otherwise than asked."""
        self.estimate.setText(text)
        self.estimate.setVisible(bool(text))
