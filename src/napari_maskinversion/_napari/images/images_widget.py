"""The tab for many images: the list, previous and next, and work on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from qtpy.QtCore import QEvent, QSignalBlocker, QSize, Qt, Signal
from qtpy.QtWidgets import (
    QAbstractItemView,
    QHeaderView,
    QLabel,
    QMenu,
    QPushButton,
    QSpinBox,
    QWidget,
)

from ...batch.exporting import TITLES
from ..widgets.keys import IMAGES, PANEL, named, pressed
from ..widgets.sections import MARGINS, Note, combo_box, line, select_row, stack, table_view
from .images_model import ImagesModel
from .thumbnails import SIDE

NOTHING: Final = (
    "Work through a folder of images, one after the other. Open one here, or drop it on this panel."
)
OPEN: Final = {
    "folder": "Folder of images...",
    "images": "Images...",
    "project": "Project (project.yaml)...",
    "new": "New project...",
}
_ROWS: Final = 7  # in view
_CONFIDENCE: Final = 90  # percent


class ImagesWidget(QWidget):
    """The list of images and what is done with all of them."""

    opening = Signal(str)  # A key of `OPEN`
    chosen = Signal(str)  # An image of the list
    moved = Signal(int)  # So many places forward in the list
    seen = Signal()  # Other rows are in view
    exporting = Signal(str)  # Format of the export of all images

    def __init__(self) -> None:
        super().__init__()
        self.title = Note(name="Project")
        self.model = ImagesModel()
        self.list = table_view(self.model, "Images of the project")
        self.open = QPushButton("Open...")
        self.previous, self.next = QPushButton("Previous"), QPushButton("Next")
        self.suggest = QPushButton("Suggest for all")
        self.word, self.limit = combo_box(name="Word to accept in all images"), QSpinBox()
        self.accept, self.undo = QPushButton("Accept"), QPushButton("Undo")
        self.export = QPushButton("Export all...")
        self.body = QWidget()
        self._build()
        self.show_project("", ())

    def _build(self) -> None:
        menu = QMenu(self.open)
        for name, title in OPEN.items():
            menu.addAction(title).triggered.connect(lambda _=False, n=name: self.opening.emit(n))
        self.open.setMenu(menu)
        self.open.setToolTip("Open a folder of images, some images, or a project")
        self._build_list()
        keys = named(PANEL)
        for button, name, step in (
            (self.previous, "previous image", -1),
            (self.next, "next image", 1),
        ):
            button.setToolTip(f"{keys[name].what} ({keys[name].shown})")
            button.setAccessibleName(keys[name].what)
            button.clicked.connect(lambda _=False, n=step: self.moved.emit(n))
        self.suggest.setToolTip("Compute all images without suggestions; you can stop and continue")
        self.word.setToolTip("Accept this word in all images, for undecided regions")
        self.limit.setRange(0, 100)
        self.limit.setValue(_CONFIDENCE)
        self.limit.setSuffix(" %")
        self.limit.setAccessibleName("Lowest confidence in all images")
        self.limit.setToolTip("with at least this confidence")
        self.accept.setToolTip("Accept the word in all images, in one step")
        self.accept.setAccessibleName("Accept in all images")
        self.undo.setToolTip("Undo what was last accepted in all images")
        self.undo.setAccessibleName("Undo in all images")
        self.undo.setEnabled(False)
        exports = QMenu(self.export)
        for name, title in TITLES.items():
            exports.addAction(f"{title}...").triggered.connect(
                lambda _=False, n=name: self.exporting.emit(n)
            )
        exports.addSeparator()
        self.accepted_only: Any = exports.addAction("Accepted regions only")
        self.accepted_only.setCheckable(True)
        self.export.setMenu(exports)
        self.export.setToolTip("One file or data set for all images with suggestions")
        stack(
            self.body,
            self.list,
            line(self.previous, self.next, shares=(1, 1)),
            line(self.suggest, self.export, shares=(1, 1)),
            line(QLabel("All"), self.word, shares=(0, 1)),
            line(QLabel("from"), self.limit, self.accept, self.undo, shares=(0, 1, 1, 1)),
            spacing=4,
        )
        head = line(self.title, self.open, shares=(1, 0))
        stack(self, head, self.body, margins=MARGINS, spacing=4)

    def _build_list(self) -> None:
        table = self.list
        table.setIconSize(QSize(SIDE, SIDE))
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        table.verticalHeader().setDefaultSectionSize(SIDE + 4)
        table.setFixedHeight(_ROWS * (SIDE + 4) + table.horizontalHeader().sizeHint().height() + 4)
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in range(1, self.model.columnCount()):
            title = str(self.model.headerData(column, Qt.Orientation.Horizontal, 0))
            header.resizeSection(column, table.fontMetrics().horizontalAdvance(title) + 16)
        table.setToolTip(f"{named(IMAGES)['open'].shown} or a click opens an image")
        table.clicked.connect(lambda index: self.chosen.emit(self.model.names[index.row()]))
        table.verticalScrollBar().valueChanged.connect(lambda _: self.seen.emit())
        table.installEventFilter(self)

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

    def show_words(self, words: Sequence[str]) -> None:
        """Offer words to be accepted in all images."""
        now = [self.word.itemText(row) for row in range(self.word.count())]
        if now == list(words):
            return
        chosen = self.word.currentText()
        with QSignalBlocker(self.word):
            self.word.clear()
            self.word.addItems(list(words))
            self.word.setCurrentIndex(max(self.word.findText(chosen), 0))
        self.accept.setEnabled(bool(words))

    def show_working(self, working: bool) -> None:
        """Show whether work on all images goes on."""
        for button in (self.suggest, self.accept, self.export):
            button.setEnabled(not working)
        self.accept.setEnabled(not working and self.word.count() > 0)

    @property
    def together(self) -> tuple[str, float]:
        """The word to accept in all images, and the least confidence (0..1)."""
        return self.word.currentText(), self.limit.value() / 100

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
