"""Progress bars: alone, with Cancel, and with a button that downloads weights."""

from __future__ import annotations

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QProgressBar, QWidget

from ...app.work.driver import Job
from ...base import progress_words as words
from .sections import Note, button, line, stack


class ProgressBar(QProgressBar):
    """Paints a new value with the rest of the window.

    Qt's own bar paints at once, and with it whatever else of the window has changed: the canvas
    as well, in the middle of a change of image.
    """

    def setValue(self, value: int) -> None:  # noqa: N802 - Qt's name
        """Set the value; the bar is painted by the next turn of the event loop."""
        self.setUpdatesEnabled(False)
        super().setValue(value)
        self.setUpdatesEnabled(True)


def _bar(what: str) -> ProgressBar:
    bar = ProgressBar()
    bar.setAccessibleName(f"Progress of {what}")
    bar.setToolTip(f"Progress of {what}")
    return bar


class ProgressRow(QWidget):
    """Hidden while nothing runs."""

    cancelled = Signal()

    def __init__(self, what: str, tip: str) -> None:
        super().__init__()
        self.bar = _bar(what)
        self.cancel = button("Cancel", tip, self.cancelled.emit, name=f"Cancel {what}")
        self.bar.setRange(0, 1000)
        stack(self, line(self.bar, self.cancel, shares=(1, 0)))
        self.hide()

    def show_job(self, job: Job | None) -> None:
        """Show how far a job is; None hides the row."""
        self.setVisible(job is not None)
        if job is not None:
            self.cancel.setEnabled(not job.stopping)
            # Not Qt's busy bar for unknown fractions: it shows no text.
            self.bar.setValue(round(1000 * (job.fraction or 0)))
            self.bar.setFormat(shown_text(job))


def shown_text(job: Job) -> str:
    """Return what a job does now, in a line."""
    if job.stopping:
        return f"{words.STOPPING} ..."
    return job.text or f"{words.STARTING} ..."


class FetchRow(QWidget):
    """Fetch, or the progress of a download and Cancel."""

    def __init__(self, what: str) -> None:
        super().__init__()
        tip = "Download it once; it stays on this machine."
        self.button = button("Fetch", tip, name=f"Fetch {what}")
        tip = "Stop; the download resumes here next time"
        self.cancel = button("Cancel", tip, name=f"Cancel fetching {what}")
        self.bar = _bar(f"fetching {what}")
        self.problem = Note(name=f"Why {what} could not be fetched")
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
            if total:
                self.bar.setRange(0, 1000)
                self.bar.setValue(int(1000 * done / total))
            else:
                self.bar.setRange(0, 0)  # Qt shows that something goes on
                self.bar.setValue(0)
            self.bar.setFormat(words.megabytes(done, total))
