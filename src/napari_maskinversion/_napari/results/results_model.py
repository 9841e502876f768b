"""The table of results for Qt. It shows the same data frame that is exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pandas as pd
from qtpy.QtCore import QAbstractTableModel, QModelIndex, QObject, QRect, Qt
from qtpy.QtGui import QColor, QPainter
from qtpy.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

if TYPE_CHECKING:
    from ..review.review_state import RowOverlay

# Column of the frame, title, tool tip.
COLUMNS: Final = (
    ("region", "#", "The region: label value, or row of the shape"),
    ("suggestion", "Suggestion", "The best label"),
    ("similarity", "Sim.", "Cosine similarity of the region and the label"),
    (
        "margin",
        "Margin",
        "Similarity of the label less that of the best other one: below 0 where another was picked",
    ),
    ("iou", "IoU", "Overlap of heatmap above 0.5 and mask: how well the region was found"),
    ("status", "Status", "low resolution: smaller than one token; unsure: the tip says why"),
)
_SHORT: Final = {"low resolution": "low res."}
_MARKED: Final = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole)
_NUMBERS: Final = ("similarity", "margin", "iou")
_FIGURES: Final = ("similarity", "margin")  # of the label shown


class ResultsModel(QAbstractTableModel):
    """Rows of ``Results.to_frame()``."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # What a review says of a row, asked for when the row is drawn.
        self.overlay: Callable[[int], RowOverlay | None] = lambda row: None
        self._keep(pd.DataFrame(columns=[name for name, _, _ in COLUMNS]))

    def refresh(self) -> None:
        """Draw again what is in sight: decisions or suggestions have changed."""
        if len(self.frame):
            last = self.index(len(self.frame) - 1, len(COLUMNS) - 1)
            self.dataChanged.emit(self.index(0, 0), last)

    def set_frame(self, frame: pd.DataFrame) -> None:
        """Show another table; rows that were added leave the others, and the selection, alone."""
        old, new = len(self.frame), len(frame)
        if 0 < old <= new and self.frame["region"].tolist() == frame["region"][:old].tolist():
            if new > old:
                self.beginInsertRows(QModelIndex(), old, new - 1)
                changed = not self.frame.equals(frame[:old])
                self._keep(frame)
                self.endInsertRows()
            else:
                changed = True
                self._keep(frame)
            if changed:
                self.dataChanged.emit(self.index(0, 0), self.index(old - 1, len(COLUMNS) - 1))
            return
        self.beginResetModel()
        self._keep(frame)
        self.endResetModel()

    def _keep(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        # Cells are asked for by the thousand; lists answer many times faster than a frame.
        self._cells = [frame[name].tolist() for name, _, _ in COLUMNS]
        self.largest = float(frame["similarity"].max()) if len(frame) else 0.0

    def rowCount(self, parent: Any = None) -> int:  # noqa: N802 - Qt's name
        """Regions."""
        return len(self.frame) if parent is None or not parent.isValid() else 0

    def columnCount(self, parent: Any = None) -> int:  # noqa: N802 - Qt's name
        """Columns shown."""
        return len(COLUMNS) if parent is None or not parent.isValid() else 0

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, tool tip or alignment of a cell; the number itself under UserRole."""
        name = COLUMNS[index.column()][0]
        value: Any = self._cells[index.column()][index.row()]
        if name in ("suggestion", "status") and role in _MARKED:
            overlay = self.overlay(index.row())
            if overlay is not None and name == "suggestion":
                return overlay.tip if role == Qt.ItemDataRole.ToolTipRole else overlay.suggestion
            if overlay is not None and overlay.status:
                if role == Qt.ItemDataRole.DisplayRole:
                    return overlay.status
                return f"{overlay.status}; {value}"
        if name in _FIGURES:
            overlay = self.overlay(index.row())
            value = value if overlay is None else overlay.figures.get(name, value)
        if role == Qt.ItemDataRole.DisplayRole:
            return _text(name, value)
        if role == Qt.ItemDataRole.UserRole:
            return float(value) if name in _NUMBERS and pd.notna(value) else None
        if role == Qt.ItemDataRole.ToolTipRole:
            return str(value) if name in ("suggestion", "status") else COLUMNS[index.column()][2]
        if role == Qt.ItemDataRole.TextAlignmentRole and name != "suggestion":
            side = Qt.AlignmentFlag.AlignLeft if name == "status" else Qt.AlignmentFlag.AlignRight
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        return None

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Titles and their tool tips."""
        if orientation == Qt.Orientation.Horizontal:
            if role == Qt.ItemDataRole.DisplayRole:
                return COLUMNS[section][1]
            if role == Qt.ItemDataRole.ToolTipRole:
                return COLUMNS[section][2]
        return None


def _text(name: str, value: Any) -> str:
    if pd.isna(value):
        return "\N{EN DASH}"
    if name in _NUMBERS:
        return f"{float(value):.2f}"
    # Why an answer is unsure has no room in the cell; the tool tip says it.
    shown = str(value).split(":")[0] if name == "status" else str(value)
    return _SHORT.get(shown, shown)


class BarDelegate(QStyledItemDelegate):
    """Draws a number over a bar as long as its share of the column's largest."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.color = QColor("#6a7b8c")

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        """Draw one cell."""
        super().paint(painter, option, index)
        value = index.data(Qt.ItemDataRole.UserRole)
        model = index.model()
        if value is None or not isinstance(model, ResultsModel):
            return
        share = min(max(value / model.largest, 0.0), 1.0) if model.largest > 0 else 0.0
        room = option.rect.adjusted(2, 0, -2, -2)
        bar = QRect(room.left(), room.bottom() - 2, int(room.width() * share), 3)
        painter.fillRect(bar, self.color)
