"""Part 4: estimate, buttons and progress of a run."""

from __future__ import annotations

from qtpy.QtWidgets import QProgressBar, QPushButton, QWidget

from ...base import progress_words as words
from ..session import RunState
from ..widgets.keys import PANEL, shortcut
from ..widgets.sections import MARGINS, Note, line, stack
from .live_widget import LiveWidget

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
        key = shortcut(PANEL, "run")
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

    def show_run(self, run: RunState, count: int) -> None:
        """Show the progress of a run, or how it ended; the table has ``count`` regions."""
        self.run.setEnabled(not run.running)
        self.cancel.setEnabled(run.phase == "running")
        # Qt's busy bar for an unknown fraction would show no text.
        self.progress.setValue(round(_WHOLE * run.fraction))
        if run.note:
            self.estimate.say(run.note)
        if run.phase == "stopping":
            self.progress.setFormat(f"{words.STOPPING} ...")
        elif run.running:
            self.progress.setFormat(run.text or f"{words.STARTING} ...")
        else:
            shown = run if run.done == count else RunState(done=count)
            self.progress.setFormat(f"{shown.summary} done" if count else "Ready")
