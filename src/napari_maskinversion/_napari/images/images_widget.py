"""The tab for many images: the list, previous and next, and work on all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from qtpy.QtCore import QEvent, QModelIndex, QSignalBlocker, QSize, Qt, Signal
from qtpy.QtGui import QColor, QFont, QIcon, QPixmap
from qtpy.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLabel,
    QMenu,
    QPushButton,
    QWidget,
)

from ...batch.decided import ROUNDING, Summary
from ...batch.exporting import TITLES
from ..widgets.controls import AcceptAll, pixmap_of
from ..widgets.keys import IMAGES, PANEL, named, pressed
from ..widgets.sections import MARGINS, Note, button, check_entry, combo_box, line, stack
from ..widgets.tables import RowsModel, select_row, table_view
from .images_filter import DOUBTFUL, EXAMPLE, NOTHING_FOUND, UNDECIDED, images_filter
from .images_work import SIDE

NOTHING: Final = (
    "Work through a folder of images, one after the other. Open one here, or drop it on this panel."
)
OPEN: Final = {
    "folder": "Folder of images...",
    "images": "Images...",
    "project": "Project (project.yaml)...",
    "new": "New project...",
}
_ROWS: Final = 5  # in view
_RECENT: Final = 5
_FILTERS: Final = ("all", UNDECIDED, DOUBTFUL, NOTHING_FOUND, EXAMPLE)
_FILTER_TIP: Final = (
    "Which images to list: choose, or type a word, or a number of regions such as < 5"
)
COLUMNS: Final = ("Image", "Regions", "Decided", "Flags")
_TIPS: Final = (
    "The image; Return opens it",
    "Regions of the image",
    "Regions that you have decided about",
    "Undecided regions whose suggestion is doubtful, or does not fit",
)
_DONE: Final = "\N{CHECK MARK}"


class ImagesModel(RowsModel):
    """Name with a small picture, regions, decided regions and flags of each image."""

    titles = tuple(zip(COLUMNS, _TIPS, strict=True))

    def __init__(self) -> None:
        super().__init__()
        self.names: tuple[str, ...] = ()
        self._rows: dict[str, int] = {}
        self._done: frozenset[str] = frozenset()
        self._current = ""
        self._summaries: dict[str, Summary] = {}
        self._icons: dict[str, QIcon] = {}
        blank = QPixmap(SIDE, SIDE)
        blank.fill(QColor(0, 0, 0, 0))
        self._blank = QIcon(blank)

    # -- what is known ------------------------------------------------------------------------

    def show_project(self, names: Sequence[str], done: frozenset[str], current: str) -> None:
        """Show the images of a project; another list forgets what was known."""
        if tuple(names) != self.names:
            self.beginResetModel()
            self.names = tuple(names)
            self._rows = {name: row for row, name in enumerate(self.names)}
            self._summaries = {n: s for n, s in self._summaries.items() if n in self._rows}
            self._icons = {n: i for n, i in self._icons.items() if n in self._rows}
            self._done, self._current = done, current
            self.endResetModel()
            return
        changed = (done ^ self._done) | {current, self._current}
        self._done, self._current = done, current
        for name in changed:
            self._changed(name)

    def forget(self) -> None:
        """Forget pictures and counts: another project has been opened."""
        self._summaries.clear()
        self._icons.clear()
        self.show_project((), frozenset(), "")

    def row_of(self, name: str) -> int:
        """Return the row of an image; -1 without one."""
        return self._rows.get(name, -1)

    def unknown(self, first: int, last: int) -> list[str]:
        """Return the images among some rows of which something is not known yet."""
        names = self.names[max(first, 0) : last + 1]
        return [name for name in names if name not in self._summaries or name not in self._icons]

    def set_summary(self, name: str, summary: Summary) -> None:
        """Show the counts of an image."""
        if self._summaries.get(name) != summary:
            self._summaries[name] = summary
            self._changed(name)

    def summary(self, name: str) -> Summary | None:
        """Return the counts of an image, if they are known."""
        return self._summaries.get(name)

    def waiting(self, confidence: float) -> Counter[str]:
        """Count undecided regions by their word, in the images that are known."""
        pairs = (pair for one in self._summaries.values() for pair in one.waiting)
        return Counter(word for word, sure in pairs if sure >= confidence - ROUNDING)

    @property
    def is_counting(self) -> bool:
        """Whether images are not known yet."""
        return len(self._summaries) < len(self.names)

    def drop_summary(self, name: str) -> None:
        """Count an image again when it is in view."""
        self._summaries.pop(name, None)

    def set_picture(self, name: str, pixels: Any) -> None:
        """Show a small picture (h, w, 3); None for an image that has none."""
        icon = self._blank
        if pixels is not None:
            icon = QIcon(pixmap_of(pixels))
        self._icons[name] = icon
        self._changed(name)

    def _changed(self, name: str) -> None:
        row = self.row_of(name)
        if row >= 0:
            self.dataChanged.emit(self.index(row, 0), self.index(row, len(COLUMNS) - 1))

    # -- Qt -----------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of images."""
        return len(self.names)

    def data(self, index: QModelIndex, role: int = 0) -> Any:
        """Return what a cell shows."""
        if not index.isValid():
            return None
        name, column = self.names[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(name, column)
        if role == Qt.ItemDataRole.DecorationRole and column == 0:
            return self._icons.get(name, self._blank)
        if role == Qt.ItemDataRole.SizeHintRole and column == 0:
            return QSize(SIDE, SIDE)
        if role == Qt.ItemDataRole.ToolTipRole:
            summary = self._summaries.get(name, Summary())
            return f"{name}: {summary.problem}" if summary.problem else name
        if role == Qt.ItemDataRole.FontRole and name == self._current:
            font = QFont()
            font.setBold(True)
            return font
        if role == Qt.ItemDataRole.TextAlignmentRole and column:
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{COLUMNS[column]}: {self._text(name, column)}"
        return None

    def _text(self, name: str, column: int) -> str:
        if column == 0:
            return name
        summary = self._summaries.get(name)
        if summary is None:
            return _DONE if column == 2 and name in self._done else ""
        if summary.problem:
            return "problem" if column == 1 else ""
        if summary.regions is None:
            return ""
        if column == 1:
            return f"{summary.regions:,}"
        if column == 2:
            return f"{summary.decided:,} {_DONE}" if name in self._done else f"{summary.decided:,}"
        return f"{summary.flagged:,}" if summary.suggested else ""


class ImagesWidget(QWidget):
    """The list of images and what is done with all of them."""

    opening = Signal(str)  # A key of `OPEN`
    chosen = Signal(str)  # An image of the list
    moved = Signal(int)  # So many places forward in the list
    seen = Signal()  # Other rows are in view
    reopening = Signal(str)  # A project of `recent`
    remembered = Signal()  # Another one is the last
    exporting = Signal(str)  # Format of the export of all images

    def __init__(self) -> None:
        super().__init__()
        self.title = Note(name="Project")
        self.model = ImagesModel()
        self.list = table_view(self.model, "Images of the project")
        self.open = button("Open...", "Open a folder of images, some images, or a project")
        self.recent: tuple[str, ...] = ()  # files of projects, the last one first
        self.show_recent(())
        self.filter = combo_box(_FILTERS, name="Images to list", tip=_FILTER_TIP, typed=True)
        self.fitting = Note(name="How many images are listed")
        self.fitting.hide()
        self.filter.editTextChanged.connect(lambda _: self._filter())
        self.model.modelReset.connect(self._filter)
        self.model.dataChanged.connect(
            lambda first, last, *_: self._filter(first.row(), last.row())
        )
        self.previous, self.next = self._step("Previous", -1), self._step("Next", 1)
        tip = "Compute all images without suggestions; you can stop and continue"
        self.suggest = button("Suggest for all", tip)
        tip = "Undo what was last accepted in all images"
        self.undo = button("Undo", tip, name="Undo in all images")
        self.undo.setEnabled(False)
        self.together = AcceptAll(
            "in all images",
            "Accept this word in all images, for undecided regions",
            "Accept the word in all images, in one step. +: not all are counted yet",
            self.undo,
        )
        self.together.changed.connect(self._show_waiting)
        self.model.dataChanged.connect(self._show_waiting)
        tip = "One file or data set for all images with suggestions"
        self.export = button("Export all...", tip)
        titles = {name: f"{title}..." for name, title in TITLES.items()}
        exports = _menu(self.export, titles, self.exporting)
        exports.addSeparator()
        self.accepted_only = check_entry(
            exports, "Accepted regions only", "Export only accepted regions"
        )
        self.export.setMenu(exports)
        self.body = QWidget()
        stack(
            self.body,
            line(QLabel("Show"), self.filter, shares=(0, 1)),
            self.fitting,
            self.list,
            line(self.previous, self.next, shares=(1, 1)),
            line(self.suggest, self.export, shares=(1, 1)),
            self.together,
            spacing=4,
        )
        head = line(self.title, self.open, shares=(1, 0))
        stack(self, head, self.body, margins=MARGINS, spacing=4)
        self._set_up_list()
        self.show_project("", ())

    def _step(self, text: str, by: int) -> QPushButton:
        key = named(PANEL)[f"{text.lower()} image"]
        tip = f"{key.what} ({key.shown})"
        return button(text, tip, lambda: self.moved.emit(by), name=key.what)

    def _set_up_list(self) -> None:
        table = self.list
        table.setIconSize(QSize(SIDE, SIDE))
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setTextElideMode(Qt.TextElideMode.ElideLeft)  # numbers stand at the end
        table.verticalHeader().setDefaultSectionSize(SIDE + 4)
        table.setFixedHeight(_ROWS * (SIDE + 4) + table.horizontalHeader().sizeHint().height() + 4)
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column, title in list(enumerate(COLUMNS))[1:]:
            header.resizeSection(column, table.fontMetrics().horizontalAdvance(title) + 16)
        table.setToolTip(f"{named(IMAGES)['open'].shown} or a click opens an image")
        table.clicked.connect(lambda index: self.chosen.emit(self.model.names[index.row()]))
        table.verticalScrollBar().valueChanged.connect(lambda _: self.seen.emit())
        table.installEventFilter(self)

    def remember(self, file: str) -> None:
        """Put a project first among the last ones."""
        self.show_recent((file, *(one for one in self.recent if one != file)))
        self.remembered.emit()

    def show_recent(self, files: Sequence[str]) -> None:
        """Offer the last projects above what else can be opened."""
        self.recent = tuple(files)[:_RECENT]
        there = {file: str(Path(file).parent) for file in self.recent if Path(file).exists()}
        menu = _menu(self.open, there, self.reopening)
        menu.addSeparator()
        self.open.setMenu(_menu(self.open, OPEN, self.opening, menu))

    # -- what is shown ------------------------------------------------------------------------

    def show_project(self, title: str, words: Sequence[str]) -> None:
        """Show a project, or what can be opened."""
        self.title.setText(title or NOTHING)
        self.body.setVisible(bool(title))
        self.show_words(words)

    def show_place(self, current: str, *, first: bool, last: bool) -> None:
        """Select the image in the viewer, and show whether others follow it."""
        row = self.model.row_of(current)
        if row >= 0 and self.list.currentIndex().row() != row:
            select_row(self.list, row)
        self.previous.setEnabled(not first)
        self.next.setEnabled(not last)

    @property
    def filter_text(self) -> str:
        """What images have to fit to be listed; "" if all are."""
        text = self.filter.currentText()
        return "" if images_filter(text) is None else text

    def shows(self, name: str) -> bool:
        """Return whether an image is listed."""
        return not self.list.isRowHidden(self.model.row_of(name))

    def _filter(self, first: int = 0, last: int = -1) -> None:
        """List images that fit, and those that are known; hide the others."""
        fits, names = images_filter(self.filter.currentText()), self.model.names
        if fits is None and last >= 0:  # all are listed
            return
        for row in range(first, len(names) if last < 0 else last + 1):
            known = self.model.summary(names[row])
            self.list.setRowHidden(row, not (fits is None or (known is not None and fits(known))))
        text = ""
        if fits is not None:
            count, more = sum(map(self.shows, names)), ""
            if self.model.is_counting:
                more = ", counting ..."
            elif not count:
                more = "; choose 'all' to see them"
            text = f"{count:,} of {len(names):,} images{more}"
        self.fitting.say(text)
        if last < 0:
            self.seen.emit()

    def show_words(self, words: Sequence[str]) -> None:
        """Offer words to be accepted in all images, and to be listed by."""
        word = self.together.word
        if [word.itemText(row) for row in range(word.count())] == list(words):
            return
        text = self.filter.currentText()
        with QSignalBlocker(self.filter):
            self.filter.clear()
            self.filter.addItems([*_FILTERS, *words])
            self.filter.setEditText(text)
        self.together.offer(words)
        self.together.accept.setEnabled(bool(words))
        self._show_waiting()

    def go_on(self) -> None:
        """Choose the word that most regions wait for, if none waits for the one chosen."""
        word, confidence = self.together.chosen
        waiting = self.model.waiting(confidence)
        if waiting and not waiting[word]:
            self.together.word.setCurrentText(waiting.most_common(1)[0][0])

    def _show_waiting(self, *_: object) -> None:
        word, confidence = self.together.chosen
        count, counting = self.model.waiting(confidence)[word], self.model.is_counting
        known = word and (count or not counting)
        self.together.accept.setText(f"Accept {count:,}{'+' * counting}" if known else "Accept")

    def show_working(self, working: bool) -> None:
        """Show whether work on all images goes on."""
        for one in (self.suggest, self.export):
            one.setEnabled(not working)
        self.together.accept.setEnabled(not working and self.together.word.count() > 0)

    @property
    def rows_in_view(self) -> tuple[int, int]:
        """First and last row that can be seen."""
        table = self.list
        first, last = table.rowAt(0), table.rowAt(table.viewport().height() - 1)
        return first, (self.model.rowCount() - 1 if last < 0 else last)

    def eventFilter(self, watched: Any, event: Any) -> bool:  # noqa: N802 - Qt's name
        """Let Return open the selected image, and notice when the list comes into view."""
        if watched is not getattr(self, "list", None):
            return False
        if event.type() in (QEvent.Type.Show, QEvent.Type.Resize):
            self.seen.emit()
        if event.type() == QEvent.Type.KeyPress and pressed(event, IMAGES) == "open":
            row = self.list.currentIndex().row()
            if row >= 0:
                self.chosen.emit(self.model.names[row])
            return True
        return False


def _menu(
    parent: QWidget, titles: Mapping[str, str], chosen: Any, menu: QMenu | None = None
) -> QMenu:
    """Return a menu, or the given one with more, that tells the key of what is chosen."""
    menu = menu or QMenu(parent)
    for name, title in titles.items():
        menu.addAction(title).triggered.connect(lambda _=False, n=name: chosen.emit(n))
    return menu
