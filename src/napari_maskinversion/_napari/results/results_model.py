"""Qt model of the results table. It shows the data frame that is exported."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QObject, QRect, Qt
from qtpy.QtGui import QColor, QPainter
from qtpy.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from ...results.columns import columns_in, is_missing

if TYPE_CHECKING:
    import pandas as pd

    from ..review.review_state import RowOverlay

_SHORT: Final = {"low resolution": "low res."}
_MARKED: Final = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole)
_DIGITS: Final = 2  # the columns are narrow
_MISSING: Final = "\N{EN DASH}"


class ResultsModel(QAbstractTableModel):
    """Rows of ``Results.to_frame()``.

    Attributes
    ----------
    frame : DataFrame or None
        None without rows: pandas takes seconds to import, and a run does it in its worker.
    """

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        # The review's values of a row, requested when the row is drawn.
        self.overlay: Callable[[int], RowOverlay | None] = lambda row: None
        self.columns = columns_in("panel")
        self._keep(None)

    def refresh(self) -> None:
        """Redraw the table after changes of decisions or suggestions."""
        if self.rowCount():
            last = self.index(self.rowCount() - 1, len(self.columns) - 1)
            self.dataChanged.emit(self.index(0, 0), last)

    def set_frame(self, frame: pd.DataFrame | None) -> None:
        """Show another table; added rows keep the others and the selection."""
        before, old = self.frame, self.rowCount()
        new = 0 if frame is None else len(frame)
        if (
            before is not None
            and frame is not None
            and 0 < old <= new
            and before["region"].tolist() == frame["region"][:old].tolist()
        ):
            if new > old:
                self.beginInsertRows(QModelIndex(), old, new - 1)
                changed = not before.equals(frame[:old])
                self._keep(frame)
                self.endInsertRows()
            else:
                changed = True
                self._keep(frame)
            if changed:
                self.dataChanged.emit(self.index(0, 0), self.index(old - 1, len(self.columns) - 1))
            return
        self.beginResetModel()
        self._keep(frame)
        self.endResetModel()

    def _keep(self, frame: pd.DataFrame | None) -> None:
        self.frame = frame if frame is not None and len(frame) else None
        if self.frame is None or frame is None:
            self._cells: list[list[Any]] = [[] for _ in self.columns]
            self.largest = [0.0 for _ in self.columns]
            return
        # Qt requests thousands of cells; lists are many times faster than a frame.
        self._cells = [frame[column.name].tolist() for column in self.columns]
        self.largest = [
            float(frame[column.name].max()) if column.bar else 0.0 for column in self.columns
        ]

    def rowCount(self, parent: Any = None) -> int:  # noqa: N802 - Qt's name
        """Regions."""
        if self.frame is None or (parent is not None and parent.isValid()):
            return 0
        return len(self.frame)

    def columnCount(self, parent: Any = None) -> int:  # noqa: N802 - Qt's name
        """Columns shown."""
        return len(self.columns) if parent is None or not parent.isValid() else 0

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, tooltip or alignment of a cell; its number under UserRole."""
        column = self.columns[index.column()]
        name, number = column.name, column.kind == "number"
        value: Any = self._cells[index.column()][index.row()]
        if name in ("suggestion", "status") and role in _MARKED:
            overlay = self.overlay(index.row())
            if overlay is not None and name == "suggestion":
                return overlay.tip if role == Qt.ItemDataRole.ToolTipRole else overlay.suggestion
            if overlay is not None and overlay.status:
                if role == Qt.ItemDataRole.DisplayRole:
                    return overlay.status
                return f"{overlay.status}; {value}"
        if number:
            overlay = self.overlay(index.row())
            value = value if overlay is None else overlay.figures.get(name, value)
        if role == Qt.ItemDataRole.DisplayRole:
            text = column.text(value, digits=_DIGITS, missing=_MISSING)
            return _summary(text) if column.kind == "status" else text
        if role == Qt.ItemDataRole.UserRole:
            return float(value) if number and not is_missing(value) else None
        if role == Qt.ItemDataRole.ToolTipRole:
            return str(value) if column.kind in ("text", "status") else column.explanation
        if role == Qt.ItemDataRole.TextAlignmentRole and column.kind != "text":
            left = column.kind == "status"
            side = Qt.AlignmentFlag.AlignLeft if left else Qt.AlignmentFlag.AlignRight
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        return None

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Titles and their tooltips."""
        if orientation == Qt.Orientation.Horizontal:
            if role == Qt.ItemDataRole.DisplayRole:
                return self.columns[section].short_title
            if role == Qt.ItemDataRole.ToolTipRole:
                return self.columns[section].explanation
        return None


def _summary(status: str) -> str:
    """Return a status without its reasons: the cell is narrow, and the tooltip names them."""
    summary = status.split(":")[0]
    return _SHORT.get(summary, summary)


class BarDelegate(QStyledItemDelegate):
    """Draws a number above a bar, scaled to the column's maximum."""

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
        largest = model.largest[index.column()]
        share = min(max(value / largest, 0.0), 1.0) if largest > 0 else 0.0
        room = option.rect.adjusted(2, 0, -2, -2)
        bar = QRect(room.left(), room.bottom() - 2, int(room.width() * share), 3)
        painter.fillRect(bar, self.color)
