"""The window in which labels are edited as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import QEvent
from qtpy.QtGui import QColor
from qtpy.QtWidgets import (
    QAbstractItemView,
    QColorDialog,
    QDialog,
    QDialogButtonBox,
    QHBoxLayout,
    QHeaderView,
    QMessageBox,
    QPushButton,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from ...language.labels.label import Label
from ..widgets.keys import LABELS, pressed
from ..widgets.sections import Note
from .label_rows import COLOR, COLUMNS, RowError, from_rows, to_rows
from .label_table import LabelTable


class LabelDialog(QDialog):
    """Edits labels with synonyms, groups and colours, one per row.

    Changes nothing outside; after it is accepted, `labels` holds the new labels.
    """

    def __init__(self, labels: Sequence[Label], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Words")
        self.labels = tuple(labels)
        self._before = to_rows(labels)
        self.model = LabelTable(self._before, self)
        self.table = QTableView()
        self.problem = Note()
        self.add = _button("&Add", "Add a word below the selected one (Insert)")
        self.copy = _button("D&uplicate", "Copy the selected word")
        self.remove = _button("&Remove", "Remove the selected words (Delete)")
        self.color = _button("&Colour...", "Choose a colour for the selected words")
        self.fill = _button("&Fill colours", "Assign a colour to each word that has none")
        self.buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        for standard, tip in (
            (QDialogButtonBox.StandardButton.Ok, "Use these words"),
            (QDialogButtonBox.StandardButton.Cancel, "Leave the words as they were"),
        ):
            button = self.buttons.button(standard)
            button.setToolTip(tip)
            button.setAutoDefault(False)  # Return belongs to the table
        self._build()
        self.resize(560, 420)

    def _build(self) -> None:
        table = self.table
        table.setModel(self.model)
        table.setAccessibleName("Words, synonyms, groups, colours")
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setTabKeyNavigation(False)  # Tab still goes to the next cell while one is edited
        table.setWordWrap(False)
        table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + 8)
        table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(COLOR, QHeaderView.ResizeMode.Fixed)
        header.resizeSection(COLOR, table.fontMetrics().horizontalAdvance("#888888") + 48)
        table.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.AnyKeyPressed
        )
        table.doubleClicked.connect(self._double_clicked)
        table.installEventFilter(self)
        self.add.clicked.connect(self.add_row)
        self.copy.clicked.connect(self.copy_row)
        self.remove.clicked.connect(self.remove_rows)
        self.color.clicked.connect(self.choose_color)
        self.fill.clicked.connect(self.model.fill_colors)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        line = QHBoxLayout()
        for button in (self.add, self.copy, self.remove):
            line.addWidget(button)
        line.addStretch(1)
        for button in (self.color, self.fill):
            line.addWidget(button)
        layout = QVBoxLayout(self)
        layout.addWidget(table, 1)
        layout.addLayout(line)
        layout.addWidget(self.problem)
        layout.addWidget(self.buttons)
        self.problem.hide()
        if self.model.rows:
            table.setCurrentIndex(self.model.index(0, 0))
        table.setFocus()

    # -- rows ---------------------------------------------------------------------------------

    def add_row(self) -> None:
        """Add an empty row below the current one and edit it."""
        self._insert([""] * len(COLUMNS))

    def copy_row(self) -> None:
        """Add a copy of the current row; you must change its name before OK."""
        current = self.table.currentIndex().row()
        if current >= 0:
            self._insert(self.model.rows[current])

    def remove_rows(self) -> None:
        """Remove the selected rows."""
        chosen = self._chosen()
        if chosen:
            self.model.remove(chosen)
            left = min(chosen[0], len(self.model.rows) - 1)
            self.table.setCurrentIndex(self.model.index(left, 0))

    def choose_color(self) -> None:
        """Ask for a colour for the selected rows."""
        chosen = self._chosen()
        if not chosen:
            return
        now = QColor(self.model.rows[chosen[0]][COLOR].strip() or "#ffffff")
        color = QColorDialog.getColor(now, self, "Colour of the selected words")
        if color.isValid():
            self.model.paint(chosen, color.name())

    def _insert(self, row: list[str]) -> None:
        place = self.table.currentIndex().row() + 1
        self.model.insert(place, row)
        index = self.model.index(place, 0)
        self.table.setCurrentIndex(index)
        self.table.edit(index)

    def _chosen(self) -> list[int]:
        return sorted(index.row() for index in self.table.selectionModel().selectedRows())

    def _double_clicked(self, index: Any) -> None:
        if index.column() == COLOR:
            self.choose_color()
        else:
            self.table.edit(index)

    def eventFilter(self, watched: Any, event: Any) -> bool:  # noqa: N802 - Qt's name
        """Let Insert, Delete and Return act on rows unless a cell is being edited."""
        # The Return that ends editing a cell also arrives here.
        idle = self.table.state() != QAbstractItemView.State.EditingState
        if watched is self.table and idle and event.type() == QEvent.Type.KeyPress:
            action, index = pressed(event, LABELS), self.table.currentIndex()
            if action == "add":
                self.add_row()
                return True
            if action == "remove":
                self.remove_rows()
                return True
            if action == "edit" and index.isValid():
                self.table.edit(index)
                return True
        return bool(super().eventFilter(watched, event))

    # -- the end ------------------------------------------------------------------------------

    def accept(self) -> None:
        """Close if the rows are valid; otherwise show the problem and its row."""
        self.table.setFocus()  # ends editing, so that the text typed counts
        try:
            self.labels = from_rows(self.model.rows)
        except RowError as error:
            self.problem.setText(str(error))
            self.problem.show()
            self.table.setCurrentIndex(self.model.index(error.row, 0))
            self.table.scrollTo(self.table.currentIndex())
            return
        super().accept()

    def reject(self) -> None:
        """Close without a change; ask first if anything was edited."""
        if self.model.rows != self._before and not self._may_discard():
            return
        super().reject()

    def _may_discard(self) -> bool:
        answer = QMessageBox.question(
            self, "Discard changes?", "The words were changed. Discard the changes?"
        )
        return bool(answer == QMessageBox.StandardButton.Yes)


def _button(text: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setToolTip(tip)
    button.setAutoDefault(False)
    return button
