"""Windows of the words: the table in which labels are edited, and files of labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from qtpy.QtCore import QEvent, QModelIndex, QObject, Qt, Signal
from qtpy.QtGui import QColor
from qtpy.QtWidgets import (
    QAbstractItemView,
    QColorDialog,
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from ...app.session import job_kinds
from ...app.session.jobs import Jobs
from ...base.errors import InputError
from ...language.labels.files import (
    FORMATS,
    SUFFIXES,
    LabelFile,
    read_label_file,
    unsupported_fields,
)
from ...language.labels.label import Label, clashes, fill_colors, join_words, split_words
from ...language.labels.learned import SUFFIX
from ...language.labels.vocabulary import Vocabulary
from ..widgets.dialogs import ask_file, confirm, file_filter, may_replace
from ..widgets.keys import LABELS, pressed
from ..widgets.sections import Note, button, line
from ..workers.notify import inform

Row = tuple[str, str, str, str]
_COLUMNS: Final = {
    "Word": "Name shown in tables",
    "Synonyms": "Other names for the word, separated by | ; the best match counts",
    "Group": "Any name that words share",
    "Colour": "#rrggbb, or empty; F2 to type it, Colour... to choose it",
}
_COLOR: Final = 3
_FILTERS = {file_filter(form.name, form.suffixes): form.suffixes[0] for form in FORMATS}


class RowError(InputError):
    """A problem in one row of the table."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(f"Row {row + 1}: {message}")
        self.row = row


def to_rows(labels: Iterable[Label]) -> list[Row]:
    """Return labels as rows; pipes separate synonyms."""
    return [(label.name, join_words(label.synonyms), label.group, label.color) for label in labels]


def from_rows(rows: Sequence[Row]) -> tuple[Label, ...]:
    """Convert rows to labels; skip empty rows."""
    labels, places = [], []
    for place, row in enumerate(rows):
        if not any(text.strip() for text in row):
            continue
        name, synonyms, group, color = row
        try:
            words = tuple(dict.fromkeys(split_words(synonyms)))
            labels.append(Label(name, words, group, color))
        except InputError as error:
            raise RowError(place, str(error)) from None
        places.append(place)
    for later, earlier, says in clashes(labels):
        raise RowError(places[later], f"{says} (see row {places[earlier] + 1}).")
    return tuple(labels)


class LabelDialog(QDialog):
    """Edits labels with synonyms, groups and colours, one per row.

    Changes nothing outside; after it is accepted, `labels` holds the new labels.
    """

    def __init__(self, labels: Sequence[Label], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle("Words")
        self.labels = tuple(labels)
        self._before = to_rows(labels)
        self.table = QTableWidget(0, len(_COLUMNS))
        self.problem = Note()
        self.add = button("&Add", "Add a word below the selected one (Insert)")
        self.copy = button("D&uplicate", "Copy the selected word")
        self.remove = button("&Remove", "Remove the selected words (Delete)")
        self.color = button("&Colour...", "Choose a colour for the selected words")
        self.fill = button("&Fill colours", "Assign a colour to each word that has none")
        self.buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Ok | QDialogButtonBox.StandardButton.Cancel
        )
        for standard, tip in (
            (QDialogButtonBox.StandardButton.Ok, "Use these words"),
            (QDialogButtonBox.StandardButton.Cancel, "Leave the words as they were"),
        ):
            self.buttons.button(standard).setToolTip(tip)
        self._build_table()
        self.add.clicked.connect(lambda: self._insert(("", "", "", "")))
        self.copy.clicked.connect(self.copy_row)
        self.remove.clicked.connect(self.remove_rows)
        self.color.clicked.connect(self.choose_color)
        self.fill.clicked.connect(self.fill_colors)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        left, right = (self.add, self.copy, self.remove), (self.color, self.fill)
        for push_button in (*left, *right, *self.buttons.buttons()):
            push_button.setAutoDefault(False)  # Return belongs to the table
        row = line(*left, QWidget(), *right, shares=(0, 0, 0, 1, 0, 0))
        layout = QVBoxLayout(self)
        layout.addWidget(self.table, 1)
        layout.addWidget(row)
        layout.addWidget(self.problem)
        layout.addWidget(self.buttons)
        self.problem.hide()
        self.resize(560, 420)
        self.table.setFocus()

    def _build_table(self) -> None:
        table = self.table
        table.setHorizontalHeaderLabels(list(_COLUMNS))
        for column, tip in enumerate(_COLUMNS.values()):
            table.horizontalHeaderItem(column).setToolTip(tip)
        table.setAccessibleName("Words, synonyms, groups, colours")
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setTabKeyNavigation(False)  # Tab still goes to the next cell while one is edited
        table.setWordWrap(False)
        table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + 8)
        table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(_COLOR, QHeaderView.ResizeMode.Fixed)
        header.resizeSection(_COLOR, table.fontMetrics().horizontalAdvance("#888888") + 48)
        table.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.AnyKeyPressed
        )
        table.itemChanged.connect(_show_color)
        for place, row in enumerate(self._before):
            self._put(place, row)
        table.setCurrentCell(0, 0)
        table.doubleClicked.connect(self._double_clicked)
        table.installEventFilter(self)

    # -- rows ---------------------------------------------------------------------------------

    @property
    def rows(self) -> list[Row]:
        """The texts in the table."""
        rows: list[Row] = []
        for row in range(self.table.rowCount()):
            items = [self.table.item(row, column) for column in range(len(_COLUMNS))]
            rows.append(tuple(item.text() for item in items))
        return rows

    def copy_row(self) -> None:
        """Add a copy of the current row; you must change its name before OK."""
        current = self.table.currentRow()
        if current >= 0:
            self._insert(self.rows[current])

    def remove_rows(self) -> None:
        """Remove the selected rows."""
        chosen = self._chosen()
        for row in reversed(chosen):
            self.table.removeRow(row)
        if chosen:
            self.table.setCurrentCell(min(chosen[0], self.table.rowCount() - 1), 0)

    def choose_color(self) -> None:
        """Ask for a colour for the selected rows."""
        chosen = self._chosen()
        if not chosen:
            return
        before = QColor(self.rows[chosen[0]][_COLOR].strip() or "#ffffff")
        color = QColorDialog.getColor(before, self, "Colour of the selected words")
        if color.isValid():
            for row in chosen:
                self.table.item(row, _COLOR).setText(color.name())

    def fill_colors(self) -> None:
        """Assign a colour to each row that has none."""
        typed = [row[_COLOR].strip() for row in self.rows]
        colors = fill_colors([color.lower() for color in typed])
        for row, (typed_color, color) in enumerate(zip(typed, colors, strict=True)):
            self.table.item(row, _COLOR).setText(typed_color or color)

    def _insert(self, row: Row) -> None:
        place = self.table.currentRow() + 1
        self._put(place, row)
        self.table.setCurrentCell(place, 0)
        self.table.editItem(self.table.item(place, 0))

    def _put(self, place: int, row: Row) -> None:
        self.table.insertRow(place)
        for column, text in enumerate(row):
            self.table.setItem(place, column, QTableWidgetItem(text))

    def _chosen(self) -> list[int]:
        return sorted(index.row() for index in self.table.selectionModel().selectedRows())

    def _double_clicked(self, index: QModelIndex) -> None:
        if index.column() == _COLOR:
            self.choose_color()
        else:
            self.table.edit(index)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Let Insert, Delete and Return act on rows unless a cell is being edited."""
        # The Return that ends editing a cell also arrives here.
        idle = self.table.state() != QAbstractItemView.State.EditingState
        if watched is self.table and idle and event.type() == QEvent.Type.KeyPress:
            action, index = pressed(event, LABELS), self.table.currentIndex()
            if action == "add":
                self._insert(("", "", "", ""))
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
            self.labels = from_rows(self.rows)
        except RowError as error:
            self.problem.say(str(error))
            self.table.setCurrentCell(error.row, 0)
            self.table.scrollTo(self.table.currentIndex())
            return
        super().accept()

    def reject(self) -> None:
        """Close without a change; ask first if anything was edited."""
        text = "The words were changed. Discard the changes?"
        if self.rows == self._before or confirm(self, "Discard changes?", text):
            super().reject()


def _show_color(item: QTableWidgetItem) -> None:
    """Show a patch in the colour that a cell names, and the whole text of a long one."""
    color = QColor(item.text().strip())
    item.setToolTip(item.text())
    if item.column() == _COLOR:
        table = item.tableWidget()
        with_patch = bool(item.text().strip()) and color.isValid()
        table.blockSignals(True)  # an icon is a change of the item too
        item.setData(Qt.ItemDataRole.DecorationRole, color if with_patch else None)
        table.blockSignals(False)


_LOADED = f"{file_filter('Words and classifiers', [*SUFFIXES, SUFFIX])};;All files (*)"


class LabelFiles(QObject):
    """Reads and writes files of labels for a widget, in workers."""

    loaded = Signal(object)  # The `LabelFile` that was read; not for files that cannot be used

    def __init__(self, window: QWidget, jobs: Jobs) -> None:
        super().__init__(window)
        self._window = window
        self._reading = jobs.of(job_kinds.READ_WORDS)
        self._writing = jobs.of(job_kinds.SAVE_WORDS)

    @property
    def busy(self) -> bool:
        """Whether a file is being read or written."""
        return self._reading.busy or self._writing.busy

    def ask(self) -> None:
        """Ask for a file and read its labels."""
        if path := ask_file(self._window, "Load words", _LOADED):
            self.read(path)

    def read(self, path: Path) -> None:
        """Read a label file; emits `loaded`."""
        self._reading.start(partial(_read, path), self.loaded.emit)

    def ask_where(self, vocabulary: Vocabulary) -> None:
        """Ask for a file and save a vocabulary there."""
        # `save` asks before it replaces a file: it knows the suffix added to the name.
        typed, kind = QFileDialog.getSaveFileName(
            self._window,
            "Save words",
            "words.txt",
            ";;".join(_FILTERS),
            options=QFileDialog.Option.DontConfirmOverwrite,
        )
        if typed:
            path = Path(typed)
            if path.suffix.lower() not in SUFFIXES:
                path = Path(typed + _FILTERS.get(kind, ".txt"))
            self.save(vocabulary, path)

    def save(self, vocabulary: Vocabulary, path: Path) -> None:
        """Save a vocabulary in the format of the file's suffix; ask before replacing a file."""
        if may_replace(self._window, [path]):
            self._writing.start(partial(_write, vocabulary, path), inform)


def _read(path: Path) -> LabelFile:
    content = read_label_file(path)
    try:
        Vocabulary.of(content.labels)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return content


def _write(vocabulary: Vocabulary, path: Path) -> str:
    vocabulary.save(path, overwrite=True)
    message = f"Saved {len(vocabulary.labels):,} words in {path}."
    lost = unsupported_fields(vocabulary.content, path.suffix)
    if lost:
        message += f" A {path.suffix} file cannot hold {', '.join(lost)}."
    return message
