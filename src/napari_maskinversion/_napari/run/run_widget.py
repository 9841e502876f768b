"""Part 4: estimate, buttons and progress of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtWidgets import QProgressBar, QPushButton, QWidget

from ...base import progress_words as words
from ..widgets.keys import PANEL, shortcut
from ..widgets.sections import MARGINS, Note, line, stack
from .live_widget import LiveWidget

if TYPE_CHECKING:
    from ..session import RunState
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
        self.estimate = Note()
        self.run = QPushButton("Run")
        key = shortcut(PANEL, "next")
        self.run.setToolTip(f"Find the best label of every region ({key.toString()})")
        self.run.setShortcut(key)
        self.cancel = QPushButton("Cancel")
        self.cancel.setToolTip("Stop at the next step; finished regions are kept")
        self.progress = QProgressBar()
        self.progress.setAccessibleName("Progress")
        self.progress.setRange(0, _WHOLE)
        buttons = line(self.run, self.cancel, live.switch, shares=(2, 1, 0))
        parts = (self.estimate, buttons, self.progress, live.line)
        stack(self, *parts, margins=MARGINS, spacing=4)

    def show_running(self, running: bool, run: RunState, count: int) -> None:
        """Show that a run is at work, or over; the table has ``count`` regions."""
        self.run.setEnabled(not running)
        self.cancel.setEnabled(running)
        self.progress.setValue(0)
        done = f"{count} region{'s' * (count != 1)} done" if count else "Ready"
        if count and run.done == count:
            done = f"{run.summary} done"
        self.progress.setFormat(f"{words.STARTING} ..." if running else done)

    def show_update(self, update: Update) -> None:
        """Show the progress of a run, unless it is being stopped."""
        if update.note:
            self.estimate.say(update.note)  # what was changed because memory ran out
        if not self.cancel.isEnabled():
            return  # the bar says "Stopping"
        # Qt's busy bar for an unknown fraction would show no text.
        self.progress.setValue(round(_WHOLE * (update.fraction or 0)))
        self.progress.setFormat(update.text)

    def show_stopping(self) -> None:
        """Show that the run stops at its next step."""
        self.cancel.setEnabled(False)
        self.progress.setFormat(f"{words.STOPPING} ...")
