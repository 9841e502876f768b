"""What the table's selected region has: bars of its best words, and captions."""

from __future__ import annotations

from collections.abc import Sequence

from qtpy.QtCore import QRectF, QSize, Qt
from qtpy.QtGui import QAction, QColor, QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from qtpy.QtWidgets import (
    QAbstractItemView,
    QListView,
    QListWidget,
    QListWidgetItem,
    QSizePolicy,
    QWidget,
)

from ...results.columns import CONFIDENCE
from ...results.region_result import RegionResult
from ..widgets.keys import CAPTIONS, pressed
from ..widgets.table_views import copy_texts

SHOWN = 5
_SHORTEST = 100  # pixels for a bar and its number
_TALLEST = 12  # lines of text


class Bars(QWidget):
    """Up to five words with their confidence; a full bar is 1."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[str, float]] = []
        self.bar_color, self.text_color = QColor("#6a7b8c"), QColor("#f0f1f2")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Best words for the selected region")

    def show_rows(self, rows: Sequence[tuple[str, float]]) -> None:
        """Show words with their confidence in 0..1, best first."""
        self._rows = list(rows)[:SHOWN]
        text = ", ".join(f"{word} {value:.0%}" for word, value in self._rows)
        self.setAccessibleDescription(text)
        self.setToolTip(f"{text}\n\n{CONFIDENCE}.")
        self.updateGeometry()
        self.update()

    def _row_height(self) -> int:
        return self.fontMetrics().height() + 6

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Height of the current rows."""
        return QSize(200, self._row_height() * len(self._rows))

    def name_width(self) -> int:
        """Return the room for names: whole ones, as long as a short bar fits beside them."""
        metrics = self.fontMetrics()
        widest = max((metrics.horizontalAdvance(word) for word, _ in self._rows), default=0)
        return max(min(widest + 10, self.width() - _SHORTEST), 0)

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        """Draw the bars."""
        if not self._rows:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics, height = self.fontMetrics(), self._row_height()
        number = metrics.horizontalAdvance("100 %") + 6
        names = self.name_width()
        room = max(self.width() - names - number, 10)
        middle = Qt.AlignmentFlag.AlignVCenter
        for row, (word, value) in enumerate(self._rows):
            top = row * height
            painter.setPen(self.text_color)
            text = metrics.elidedText(word, Qt.TextElideMode.ElideRight, names - 8)
            painter.drawText(QRectF(0, top, names, height), middle, text)
            share = min(max(value, 0.0), 1.0)
            color = QColor(self.bar_color)
            color.setAlphaF(1.0 if row == 0 else 0.6)
            painter.setBrush(color)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawRoundedRect(QRectF(names, top + 4, max(room * share, 1), height - 8), 2, 2)
            painter.setPen(self.text_color)
            place = QRectF(names + room, top, number, height)
            painter.drawText(
                place, middle | Qt.AlignmentFlag.AlignRight, f"{value:.0%}".replace("%", " %")
            )
        painter.end()


class CaptionList(QListWidget):
    """A generated caption, then those of a bank with their similarities; they can be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Captions of the selected region")
        self.setToolTip(
            "The generated caption, then similarity and captions of the bank; Ctrl+C copies the "
            "selected ones, or all"
        )
        self.setWordWrap(True)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.setTextElideMode(Qt.TextElideMode.ElideNone)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setTabKeyNavigation(False)
        self.copy_action = QAction("Copy", self)
        self.copy_action.triggered.connect(self.copy)
        self.addAction(self.copy_action)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self.hide()

    def show_region(self, region: RegionResult | None) -> None:
        """Show the generated caption of a region, then those of a bank; hide an empty list."""
        self.clear()
        lines: list[tuple[str, str]] = []
        if region is not None and region.generated_caption:
            lines.append((region.generated_caption, region.generated_caption))
        if region is not None and region.captions is not None:
            matches = region.captions
            for text, similarity in zip(matches.captions, matches.similarities, strict=True):
                lines.append((f"{similarity:.2f}  {text}", text))
        self.setVisible(bool(lines))
        for shown, text in lines:
            item = QListWidgetItem(shown)
            item.setData(Qt.ItemDataRole.UserRole, text)
            self.addItem(item)
        if lines:
            self._fit()

    def copy(self) -> None:
        """Copy the selected captions, or all, to the clipboard: one a line, without numbers."""
        items = self.selectedItems() or [self.item(row) for row in range(self.count())]
        rows = sorted(items, key=self.row)
        copy_texts(str(item.data(Qt.ItemDataRole.UserRole)) for item in rows)

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        """Copy with Ctrl+C; Qt would copy one caption, with its number."""
        if pressed(event, CAPTIONS) == "copy":
            self.copy()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802 - Qt's name
        """Fit the height to the wrapped lines."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        self.doItemsLayout()
        tall = sum(self.sizeHintForRow(row) for row in range(self.count()))
        if self.count():
            last = self.visualItemRect(self.item(self.count() - 1))
            tall = max(tall, last.bottom() + 1 + self.verticalOffset())
        most = _TALLEST * self.fontMetrics().lineSpacing()
        height = min(tall, most) + 2 * self.frameWidth() + 2
        if height != self.height():
            self.setFixedHeight(height)
