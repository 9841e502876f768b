"""A window with what was learned from decisions: accuracy by class, and a button that saves it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QHeaderView, QTableWidget, QTableWidgetItem, QWidget

from ...app.review.learning import Trained
from ...app.session import job_kinds
from ...app.session.jobs import Jobs
from ...base.wording import counted
from ...language.labels.learned import SUFFIX
from ..widgets.dialogs import ToolDialog, ask_where, file_filter, may_replace
from ..widgets.sections import Note, button, line, stack
from ..workers.notify import inform

_WIDE: Final = 380  # pixels: the four columns
_LISTED: Final = 5  # doubtful decisions
_COLUMNS = ("Word", "Decisions", "Right", "95 %")


class LearnDialog(ToolDialog):
    """Shows a classifier before anybody uses it."""

    doubted = Signal(object, bool)  # `Trained`, of which to look at; and whether in the gallery

    def __init__(self, parent: QWidget, jobs: Jobs) -> None:
        self.summary, self.notes = Note(), Note()
        self.table = QTableWidget(0, len(_COLUMNS))
        self.table.setHorizontalHeaderLabels(_COLUMNS)
        self.table.setAccessibleName("Accuracy of each word on what was held out")
        self.table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        head = self.table.horizontalHeader()
        assert head is not None
        head.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.save = button(
            "Save...", "Save it: Words > Load... and --classifier rank by it", self.ask
        )
        self.look = button("Look", "Review these decisions again", partial(self._look, False))
        self.wall = button(
            "In the gallery",
            "See them, on other images too, and decide again",
            partial(self._look, True),
        )
        content = QWidget()
        content.setMinimumWidth(_WIDE)
        buttons = line(self.save, self.look, self.wall, shares=(1, 1, 1))
        stack(content, self.summary, self.table, self.notes, buttons, spacing=6)
        super().__init__("Learned from decisions", content, parent)
        self._trained: Trained | None = None
        self._writing = jobs.of(job_kinds.SAVE_CLASSIFIER)

    def show_trained(self, trained: Trained) -> None:
        """Show a classifier."""
        self._trained = trained
        self.summary.setText(trained.summary)
        doubts = trained.classifier.doubts
        notes = list(trained.classifier.notes)
        if doubts:
            line_of_doubts = f"May be wrong: {'; '.join(doubts[:_LISTED])}"
            if len(doubts) > _LISTED:
                line_of_doubts += f"; and {len(doubts) - _LISTED:,} more"
            notes.append(line_of_doubts)
        self.notes.say("\n".join(notes))
        rows = trained.classifier.rows()
        self.table.setRowCount(len(rows))
        for number, row in enumerate(rows):
            for column, text in enumerate(row):
                self.table.setItem(number, column, QTableWidgetItem(text))
        count = len(trained.doubtful)
        self.look.setText(f"Look at {counted(count, 'doubtful decision')}")
        self.look.setVisible(count > 0)
        self.wall.setVisible(bool(trained.doubtful or trained.places))
        self.bring()

    def _look(self, wall: bool) -> None:
        if self._trained is not None:
            self.doubted.emit(self._trained, wall)

    def ask(self) -> None:
        """Ask for a file and save the classifier there."""
        kinds = file_filter("Classifiers", [SUFFIX])
        path = ask_where(self, "Save classifier", f"classifier{SUFFIX}", kinds)
        if path is not None:
            self.save_to(path)

    def save_to(self, path: Path) -> None:
        """Save the classifier; ask before replacing a file."""
        if path.suffix.lower() != SUFFIX:
            path = path.with_name(path.name + SUFFIX)
        if self._trained is not None and may_replace(self, [path]):
            self._writing.start(partial(_write, self._trained, path), inform)


def _write(trained: Trained, path: Path) -> str:
    return f"Saved {trained.classifier.save(path, overwrite=True)}."
