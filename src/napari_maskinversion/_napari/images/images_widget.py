"""The tab for many images: the list, previous and next, and work on all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from qtpy.QtCore import QEvent, QSignalBlocker, QSize, Qt, Signal
from qtpy.QtGui import QFontMetrics
from qtpy.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QHeaderView,
    QLabel,
    QMenu,
    QPushButton,
    QStyle,
    QWidget,
)

from ...app.project.images_work import SIDE, About, list_work
from ...app.session import job_kinds
from ...app.session.jobs import Jobs
from ...batch.opened import OpenProject
from ...batch.project import FILE as PROJECT_FILE
from ...results.export.catalogue import JOINED, MANY
from ..widgets.controls import AcceptAll
from ..widgets.dialogs import ask_file, ask_folder, ask_where
from ..widgets.keys import IMAGES, PANEL, named, pressed
from ..widgets.sections import MARGINS, Note, button, check_entry, combo_box, debouncer, line, stack
from ..widgets.table_views import TrueIcons, select_row, table_view
from .images_model import (
    COLUMNS,
    DOUBTFUL,
    EXAMPLE,
    NOTHING_FOUND,
    UNDECIDED,
    ImagesModel,
    images_filter,
)

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
_LOOK: Final = 60  # milliseconds after scrolling
_LISTED_AT_ONCE: Final = 40


class ImagesWidget(QWidget):
    """The list of images and what is done with all of them."""

    opened = Signal(object)  # Paths of a project, a folder or images
    making = Signal(object, object, object)  # A new project: its file, images and their regions
    chosen = Signal(str)  # An image of the list
    moved = Signal(int)  # So many places forward in the list
    remembered = Signal()  # Another one is the last
    exporting = Signal(str)  # Format of the export of all images

    def __init__(self, jobs: Jobs) -> None:
        super().__init__()
        self.project: OpenProject | None = None  # as it is on the disk
        self.lister = jobs.of(job_kinds.LIST_IMAGES)
        self._look_later = debouncer(self, _LOOK, self._look)
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
        tip = "One file or data set for all images with suggestions, or a file for each"
        self.export = button("Export all...", tip)
        titles = {name: f"{many.title}..." for name, many in MANY.items()}
        joined = {name: titles.pop(name) for name in JOINED}
        exports = _menu(self.export, joined, self.exporting.emit)
        for_each = _menu(exports, titles, self.exporting.emit)
        for_each.setTitle("One file for each image")
        exports.addMenu(for_each)
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
        tip = f"{key.effect} ({key.shown})"
        return button(text, tip, lambda: self.moved.emit(by), name=key.effect)

    def _set_up_list(self) -> None:
        table = self.list
        table.setIconSize(QSize(SIDE, SIDE))
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setItemDelegateForColumn(0, _Names(table))
        tall = max(SIDE, 2 * table.fontMetrics().lineSpacing()) + 4  # a name may have two lines
        table.verticalHeader().setDefaultSectionSize(tall)
        table.setFixedHeight(_ROWS * tall + table.horizontalHeader().sizeHint().height() + 4)
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column, title in list(enumerate(COLUMNS))[1:]:
            header.resizeSection(column, table.fontMetrics().horizontalAdvance(title) + 16)
        table.setToolTip(f"{named(IMAGES)['open'].shown} or a click opens an image")
        table.clicked.connect(lambda index: self.chosen.emit(self.model.names[index.row()]))
        table.verticalScrollBar().valueChanged.connect(lambda _: self.look())
        table.installEventFilter(self)

    def remember(self, file: str) -> None:
        """Put a project first among the last ones."""
        self.show_recent((file, *(one for one in self.recent if one != file)))
        self.remembered.emit()

    def show_recent(self, files: Sequence[str]) -> None:
        """Offer the last projects above what else can be opened."""
        self.recent = tuple(files)[:_RECENT]
        there = {file: str(Path(file).parent) for file in self.recent if Path(file).exists()}
        menu = _menu(self.open, there, lambda file: self.opened.emit([Path(file)]))
        menu.addSeparator()
        self.open.setMenu(_menu(self.open, OPEN, self._ask, menu))

    def _ask(self, what: str) -> None:
        """Ask what to open: a key of `OPEN`."""
        paths: list[Path | None] = []
        if what == "folder":
            paths = [ask_folder(self, "Folder of images")]
        elif what == "images":
            paths = list(map(Path, QFileDialog.getOpenFileNames(self, "Images")[0]))
        elif what == "project":
            paths = [ask_file(self, "Project", "Projects (*.yaml *.yml);;All files (*)")]
        elif images := ask_folder(self, "New project: folder of images"):
            title = (
                "New project: file with the regions of all images, or one of their files "
                "(Cancel: none yet)"
            )
            regions = ask_file(self, title, place=str(images))
            usual = str(images / PROJECT_FILE)
            title = "New project: where to keep it"
            if file := ask_where(self, title, usual, "Projects (*.yaml)"):
                self.making.emit(file, images, regions)
        if paths and paths[0] is not None:
            self.opened.emit(paths)

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
    def _is_filtered(self) -> bool:
        return images_filter(self.filter.currentText()) is not None

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
            self.look()

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

    # -- what is known of the images ----------------------------------------------------------

    def look(self) -> None:
        """Read pictures and counts of the images in view, after a pause."""
        self._look_later.throttle()

    def forget(self) -> None:
        """Forget what is known: another project is opened."""
        self.lister.drop()
        self.model.forget()

    def stop(self) -> None:
        """Read nothing more."""
        self._look_later.cancel()

    def _look(self) -> None:
        table, project = self.list, self.project
        if project is None or not table.isVisible():
            return
        first, last = table.rowAt(0), table.rowAt(table.viewport().height() - 1)
        if self._is_filtered or last < 0:
            last = self.model.count - 1
        names = self.model.unknown(0 if self._is_filtered else first, last)[:_LISTED_AT_ONCE]
        names = [name for name in names if name in project.by_name]
        if names:
            self.lister.start(partial(list_work, project, names), news=self._list)

    def _list(self, about: About) -> None:
        self.model.set_picture(about.name, about.picture)
        if about.summary is not None and about.name != self.model.current:
            self.model.set_summary(about.name, about.summary)

    def list_on(self) -> None:
        """Read what the filter asks about, also of images that it does not show yet."""
        if self._is_filtered and self.model.is_counting:
            self.look()

    def eventFilter(self, watched: Any, event: Any) -> bool:  # noqa: N802 - Qt's name
        """Let Return open the selected image, and notice when the list comes into view."""
        if watched is not getattr(self, "list", None):
            return False
        if event.type() in (QEvent.Type.Show, QEvent.Type.Resize):
            self.look()
        if event.type() == QEvent.Type.KeyPress and pressed(event, IMAGES) == "open":
            row = self.list.currentIndex().row()
            if row >= 0:
                self.chosen.emit(self.model.names[row])
            return True
        return False


class _Names(TrueIcons):
    """Shows a name that is too long in two lines: where it begins, and its end with the number."""

    def initStyleOption(self, option: Any, index: Any) -> None:  # noqa: N802 - Qt's name
        """Break the name where it has to be; only what two lines cannot hold is left out."""
        super().initStyleOption(option, index)
        style, part = option.widget.style(), QStyle.SubElement.SE_ItemViewItemText
        margin = style.pixelMetric(QStyle.PixelMetric.PM_FocusFrameHMargin, option, option.widget)
        room = style.subElementRect(part, option, option.widget).width() - 2 * (margin + 1)
        metrics, sides = QFontMetrics(option.font), Qt.TextElideMode
        if metrics.horizontalAdvance(option.text) > room > 0:
            cut = metrics.elidedText(option.text, sides.ElideRight, room)
            start = cut.rstrip("\N{ZERO WIDTH JOINER}…")  # both after joined letters
            end = metrics.elidedText(option.text.removeprefix(start), sides.ElideLeft, room)
            option.text = f"{start}\N{LINE SEPARATOR}{end}"


def _menu(
    parent: QWidget, titles: Mapping[str, str], chosen: Any, menu: QMenu | None = None
) -> QMenu:
    """Return a menu, or the given one with more, that calls with the key of what is chosen."""
    menu = menu or QMenu(parent)
    for name, title in titles.items():
        menu.addAction(title).triggered.connect(lambda _=False, n=name: chosen(n))
    return menu
