"""The gallery's wall: crops of regions in a list that draws only what is in view."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import (
    QAbstractListModel,
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from qtpy.QtGui import QColor, QPainter, QPen, QPixmap
from qtpy.QtWidgets import QAbstractItemView, QApplication, QListView, QStyle, QStyledItemDelegate

from ...app.explore.region_sources import RegionTable, no_regions, words_of
from ...app.work.driver import show
from ...base.wording import counted
from ...library.thumbnails import SIDE, Pixels
from ...results.orders import by_word, largest_first, smallest_first
from ..widgets.controls import pixmap_of
from ..widgets.keys import PANEL, REVIEW, WALL, pressed

if TYPE_CHECKING:
    import pandas as pd

IntArray = npt.NDArray[np.intp]
Similarities = npt.NDArray[np.float64]
SORTS: Final = ("by word", "least certain first", "most certain first")
IN_REVIEW: Final = "in Review"
SHOWN: Final = ("all", "undecided", "doubtful", "accepted", "rejected", IN_REVIEW)
_MARGIN: Final = 6  # pixels around a crop
_BADGE: Final = 3  # pixels beside the number on a crop
_AT_ONCE: Final = 12  # pictures shown together
_KEPT: Final = 2_000  # pictures, 70 MB at most
_FRAMES: Final = {"accepted": "#2e9e4f", "rejected": "#d04848", "skipped": "#8a8a8a"}
_SIGNS: Final = {
    "accepted": "\N{CHECK MARK} ",
    "rejected": "\N{MULTIPLICATION X} ",
    "skipped": "\N{EN DASH} ",
}


def arranged(
    frame: pd.DataFrame,
    sort: str = SORTS[0],
    shown: str = SHOWN[0],
    queue: Any = (),
    similarities: Similarities | None = None,
) -> tuple[IntArray, list[tuple[int, str, int]]]:
    """Return rows in order, and the runs of one word: where each begins, its word and length.

    ``queue`` has the rows that the review shows. Similarities (N,) to what was looked for are an
    order of their own.
    """
    chosen = np.ones(len(frame), bool)
    if shown == "doubtful":
        chosen = (frame["doubtful"] & (frame["decision"] == "undecided")).to_numpy(bool)
    elif shown == IN_REVIEW:
        chosen = np.isin(np.arange(len(frame)), queue)
    elif shown != "all":
        chosen = (frame["decision"] == shown).to_numpy()
    rows = np.flatnonzero(chosen)
    if similarities is not None:
        return rows[largest_first(similarities[rows])], []
    confidences = np.nan_to_num(frame["confidence"].to_numpy(float)[rows], nan=-1.0)
    if sort == SORTS[1]:
        return rows[smallest_first(confidences)], []
    if sort == SORTS[2]:
        return rows[largest_first(confidences)], []
    words = words_of(frame).iloc[rows]
    counts = words.value_counts(sort=True)  # The most frequent word is the first
    ranks = words.map({word: rank for rank, word in enumerate(counts.index)}).to_numpy(int)
    order = rows[by_word(ranks, confidences)]
    begins = np.concatenate([[0], np.cumsum(counts.to_numpy())]).tolist()
    return order, list(zip(begins, counts.index, counts.tolist(), strict=False))


class WallModel(QAbstractListModel):
    """Regions in order, with a heading before each run of one word; pictures as they come."""

    redraw = Signal()  # What is in view: Qt's own signal would lay out all tiles again

    def __init__(self) -> None:
        super().__init__()
        self.table = no_regions()
        self._items: IntArray = np.zeros(0, np.intp)  # rows; headings are -1, -2, ...
        self._heads: list[tuple[str, int]] = []
        self._pictures: OrderedDict[int, QPixmap] = OrderedDict()
        self._similarities: Similarities | None = None  # Of the rows, to what was looked for

    def show(
        self,
        table: RegionTable,
        sort: str,
        shown: str,
        queue: Any = (),
        similarities: Similarities | None = None,
    ) -> None:
        """Show a table, or the same one in another order."""
        self.beginResetModel()
        if table is not self.table:
            self._pictures.clear()
        self._similarities = similarities
        order, runs = arranged(table.frame, sort, shown, queue, similarities)
        self.table, self._heads = table, [(word, count) for _, word, count in runs]
        heads = -1 - np.arange(len(runs))
        self._items = np.insert(order, [begin for begin, _, _ in runs], heads)
        self.endResetModel()

    def rows(self, first: int, last: int) -> IntArray:
        """Return the regions among some items."""
        items = self._items[max(first, 0) : last + 1]
        return items[items >= 0]

    def without_picture(self, first: int, last: int) -> list[int]:
        """Return the regions among some items whose picture is not there."""
        return [row for row in self.rows(first, last).tolist() if row not in self._pictures]

    def items_of(self, rows: Any) -> IntArray:
        """Return the items of regions, rising; those that are not shown have none."""
        return np.flatnonzero(np.isin(self._items, rows))

    def run_of(self, item: int) -> tuple[int, int] | None:
        """Return the first and last item of the run below a heading; None for no heading."""
        if self._items[item] >= 0:
            return None
        return item + 1, item + self._heads[-1 - self._items[item]][1]

    def take_pictures(self, pictures: Sequence[tuple[int, Pixels | None]]) -> None:
        """Show pictures of rows; an empty one where there is none."""
        for row, pixels in pictures:
            self._pictures[row] = QPixmap() if pixels is None else pixmap_of(pixels)
        while len(self._pictures) > _KEPT:
            self._pictures.popitem(last=False)
        self.redraw.emit()

    def picture(self, row: int) -> QPixmap | None:
        """Return a picture, null where a region has none; None before it is there."""
        return self._pictures.get(row)

    def heading(self, item: int) -> tuple[str, int] | None:
        """Return word and count of a heading; None for a region."""
        row = self._items[item]
        return self._heads[-1 - row] if row < 0 else None

    def caption(self, row: int) -> str:
        """Return what stands below a crop: sign of the decision, word, confidence."""
        names, frame = ("decision", "label", "suggestion", "confidence"), self.table.frame
        values: list[Any] = [frame[name].iat[row] for name in names]
        decision, label, word, sure = values
        sign = _SIGNS.get(str(decision), "")
        if decision == "accepted":
            return f"{sign}{label}"
        return f"{sign}{f'{100 * sure:.0f} % ' if sure >= 0 else ''}{word}"

    def similarity(self, row: int) -> str:
        """Return how similar a region is to what was looked for; "" where nothing was."""
        similarities = self._similarities
        if similarities is None or np.isnan(similarities[row]):
            return ""
        return f"{similarities[row]:.2f}"

    # -- Qt -----------------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex | None = None) -> int:  # noqa: N802 - Qt's name
        """Return the number of regions and headings."""
        return 0 if parent is not None and parent.isValid() else len(self._items)

    def flags(self, index: QModelIndex) -> Any:
        """Let regions be marked."""
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemNeverHasChildren
        is_region = index.isValid() and self._items[index.row()] >= 0
        return flags | Qt.ItemFlag.ItemIsSelectable if is_region else flags

    def data(self, index: QModelIndex, role: int = 0) -> Any:
        """Return the row of a region, or what a screen reader and a tip say."""
        if not index.isValid():
            return None
        row = int(self._items[index.row()])
        if role == Qt.ItemDataRole.UserRole:
            return row
        if role not in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
            return None
        if row < 0:
            word, count = self._heads[-1 - row]
            return f"{word or 'no suggestion'}: {counted(count, 'region')}; a click marks all"
        one = self.table.frame.iloc[row]
        doubtful = ", doubtful" if one["doubtful"] else ""
        where = f"{one['image']}: " if one["image"] else ""
        text = f"{where}region {one['region']}, {self.caption(row)}{doubtful}, {one['decision']}"
        similarity = self.similarity(row)
        return f"{text}, similarity {similarity}" if similarity else text


def read_pictures(table: RegionTable, rows: Sequence[int]) -> None:
    """Show pictures of regions, some at once; in a worker."""
    made: list[Any] = []
    for one in table.thumbnails(rows):
        made.append(one)
        if len(made) == _AT_ONCE:
            show(made)
            made = []
    show(made)


class _Tiles(QStyledItemDelegate):
    """Draws a crop with its caption, framed by its decision; or a heading."""

    def sizeHint(self, option: Any, index: Any) -> QSize:  # noqa: N802 - Qt's name
        """Return the size of all tiles."""
        return tile_size(option.fontMetrics)

    def paint(self, painter: QPainter, option: Any, index: QModelIndex) -> None:
        """Draw a tile."""
        model, palette = index.model(), option.palette
        assert isinstance(model, WallModel)
        painter.save()
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        if selected:
            painter.fillRect(option.rect, palette.highlight())
            painter.setPen(QPen(palette.color(palette.ColorRole.Text), 2))
            painter.drawRect(option.rect.adjusted(1, 1, -1, -1))
        role = palette.ColorRole.HighlightedText if selected else palette.ColorRole.Text
        painter.setPen(palette.color(role))
        inner = option.rect.adjusted(_MARGIN, _MARGIN, -_MARGIN, -_MARGIN)
        center, wrap = Qt.AlignmentFlag.AlignCenter, Qt.TextFlag.TextWordWrap
        if (heading := model.heading(index.row())) is not None:
            font = painter.font()
            font.setBold(True)
            painter.setFont(font)
            word, count = heading
            text = f"{word or 'no suggestion'}\n{count:,}"
            painter.drawText(inner, int(center) | int(wrap), text)
        else:
            self._paint_region(painter, inner, model, index.data(Qt.ItemDataRole.UserRole))
        painter.restore()

    def _paint_region(self, painter: QPainter, inner: QRect, model: WallModel, row: int) -> None:
        text, picture = painter.pen(), model.picture(row)
        place = QRect(inner.left() + (inner.width() - SIDE) // 2, inner.top(), SIDE, SIDE)
        if picture is None or picture.isNull():
            painter.fillRect(place, QColor(128, 128, 128, 60))
            if picture is not None:
                painter.drawText(place, int(Qt.AlignmentFlag.AlignCenter), "no picture")
        else:
            size = picture.size().scaled(place.size(), Qt.AspectRatioMode.KeepAspectRatio)
            drawn = QRect(QPoint(0, 0), size)
            drawn.moveCenter(place.center())
            painter.drawPixmap(drawn, picture)
        if similarity := model.similarity(row):
            self._paint_number(painter, place, similarity)
            painter.setPen(text)
        if frame := _FRAMES.get(str(model.table.frame["decision"].iat[row])):
            painter.setPen(QPen(QColor(frame), 3))
            painter.drawRect(place)
            painter.setPen(text)
        caption = QRect(inner)
        caption.setTop(place.bottom() + 3)
        wrap = int(Qt.AlignmentFlag.AlignHCenter) | int(Qt.TextFlag.TextWordWrap)
        painter.drawText(caption, wrap, model.caption(row))

    def _paint_number(self, painter: QPainter, place: QRect, number: str) -> None:
        """Write a number into the corner of a crop."""
        metrics = painter.fontMetrics()
        badge = QRect(place.topLeft(), metrics.size(0, number) + QSize(2 * _BADGE, 0))
        painter.fillRect(badge, QColor(0, 0, 0, 170))
        painter.setPen(QColor("white"))
        painter.drawText(badge, int(Qt.AlignmentFlag.AlignCenter), number)


def tile_size(metrics: Any) -> QSize:
    """Return the size of a tile."""
    return QSize(SIDE + 2 * _MARGIN, SIDE + 2 * _MARGIN + 2 * metrics.height() + 4)


class WallView(QListView):
    """Regions side by side; a rubber band, Shift, Ctrl and Ctrl+A mark several."""

    asked = Signal(str)  # An action of the review's keys
    opened = Signal(int)  # A row
    seen = Signal()  # Other items are in view

    def __init__(self, model: WallModel) -> None:
        super().__init__()
        self.setModel(model)
        self._wall = model
        self.setItemDelegate(_Tiles(self))
        self.setFlow(QListView.Flow.LeftToRight)
        self.setWrapping(True)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setUniformItemSizes(True)
        self.setGridSize(tile_size(self.fontMetrics()))
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setSelectionRectVisible(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName("Regions")
        self.verticalScrollBar().valueChanged.connect(lambda _: self.seen.emit())
        self.clicked.connect(self._clicked)
        model.redraw.connect(self.viewport().update)

    @property
    def marked(self) -> IntArray:
        """The rows of the marked regions, in the order of the wall."""
        ranges = sorted((one.top(), one.bottom()) for one in self.selectionModel().selection())
        parts = [self._wall.rows(first, last) for first, last in ranges]
        return np.concatenate(parts) if parts else np.zeros(0, np.intp)

    def mark(self, rows: Any) -> None:
        """Mark regions, and scroll to the first of them."""
        items, model = self._wall.items_of(rows), self._wall
        selection = QItemSelection()
        for part in np.split(items, np.flatnonzero(np.diff(items) > 1) + 1) if len(items) else ():
            selection.select(model.index(int(part[0])), model.index(int(part[-1])))
        marks, flags = self.selectionModel(), QItemSelectionModel.SelectionFlag
        marks.select(selection, flags.ClearAndSelect)
        if len(items):
            first = model.index(int(items[0]))
            if self.currentIndex().row() not in items:
                marks.setCurrentIndex(first, flags.NoUpdate)  # arrows go on from there
            self.scrollTo(first)

    @property
    def items_in_view(self) -> tuple[int, int]:
        """First and last item that can be seen, about; none: (0, -1)."""
        size, port = self.gridSize(), self.viewport().size()
        first = self.indexAt(QPoint(size.width() // 2, 0)).row()
        if first < 0:
            return 0, -1
        columns = max(1, port.width() // size.width())
        return first, first + columns * (port.height() // size.height() + 2)

    def _clicked(self, index: QModelIndex) -> None:
        """Mark the run below a heading; open a region, unless several are being marked."""
        run = self._wall.run_of(index.row())
        if run is not None:
            model, flag = self.selectionModel(), self.selectionModel().SelectionFlag
            ends = (self._wall.index(one) for one in run)
            model.select(QItemSelection(*ends), flag.ClearAndSelect)
        elif QApplication.keyboardModifiers() == Qt.KeyboardModifier.NoModifier:
            self.opened.emit(index.data(Qt.ItemDataRole.UserRole))

    def _action(self, event: Any) -> str:
        return (
            pressed(event, WALL)
            or pressed(event, REVIEW)
            or ("undo" if pressed(event, PANEL) == "undo" else "")
        )

    def event(self, event: Any) -> bool:
        """Take our keys before napari's shortcuts, and notice when the wall is seen."""
        if event.type() == QEvent.Type.ShortcutOverride and self._action(event):
            event.accept()
            return True
        if event.type() in (QEvent.Type.Show, QEvent.Type.Resize):
            self.seen.emit()
        return bool(super().event(event))

    def keyPressEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Decide about what is marked; arrows, Ctrl+A and the like are Qt's."""
        action, index = self._action(event), self.currentIndex()
        if action == "open" and index.isValid() and self._wall.run_of(index.row()) is None:
            self.opened.emit(index.data(Qt.ItemDataRole.UserRole))
        elif action not in ("", "all", "open"):
            self.asked.emit(action)
        else:
            super().keyPressEvent(event)
