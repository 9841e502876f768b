"""A button that downloads weights, with progress and Cancel."""

from __future__ import annotations

from qtpy.QtWidgets import QPushButton, QWidget

from ...base import progress_words as words
from .progress_bar import ProgressBar
from .sections import Note, line, stack


class FetchRow(QWidget):
    """Fetch, or the progress of a download and Cancel."""

    def __init__(self, what: str) -> None:
        super().__init__()
        self.button, self.cancel = QPushButton("Fetch"), QPushButton("Cancel")
        self.bar = ProgressBar()
        self.problem = Note(name=f"Why {what} could not be fetched")
        for widget, name, tip in (
            (self.button, f"Fetch {what}", "Download it once; it stays on this machine."),
            (self.bar, f"Progress of fetching {what}", f"Progress of fetching {what}"),
            (self.cancel, f"Cancel fetching {what}", "Stop; the download resumes here next time"),
        ):
            widget.setAccessibleName(name)
            widget.setToolTip(tip)
        stack(self, line(self.button, self.bar, self.cancel), self.problem)

    def show_progress(self, progress: tuple[int, int] | None, *, needed: bool) -> None:
        """Show the progress of a download in bytes; if None, Fetch where it is needed."""
        running = progress is not None
        self.problem.say("")
        self.button.setVisible(needed and not running)
        self.bar.setVisible(running)
        self.cancel.setVisible(running)
        if progress is not None:
            done, total = progress
            self.bar.setRange(0, 1000 if total else 0)
            self.bar.setValue(int(1000 * done / total) if total else 0)
            self.bar.setFormat(words.megabytes(done, total))
