"""Qt model of the label table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QObject, Qt
from qtpy.QtGui import QColor

from ...language.labels.colors import fill_colors
from .label_rows import COLOR, COLUMNS, Row

_TIPS = (
    "Name shown in tables",
    "Other names for the word, separated by | ; the best match counts",
    "Any name that words share",
    "#rrggbb, or empty; F2 to type it, Colour... to choose it",
)


class LabelTable(QAbstractTableModel):
    """Rows of four texts; checked when the dialog is accepted."""

    def __init__(self, rows: Sequence[Row], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.rows = [list(row) for row in rows]

    def rowCount(self, parent: Any = None) -> int:  # noqa: N802 - Qt's name
        """Labels."""
        return len(self.rows) if parent is None or not parent.isValid() else 0

    def columnCount(self, parent: Any = None) -> int:  # noqa: N802 - Qt's name
        """Texts of a label."""
        return len(COLUMNS) if parent is None or not parent.isValid() else 0

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text of a cell, and a patch in its colour."""
        text = self.rows[index.row()][index.column()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return text
        if role == Qt.ItemDataRole.DecorationRole and index.column() == COLOR:
            color = QColor(text.strip())
            return color if text.strip() and color.isValid() else None
        if role == Qt.ItemDataRole.ToolTipRole:
            return text or _TIPS[index.column()]
        return None

    def setData(  # noqa: N802 - Qt's name
        self, index: QModelIndex, value: Any, role: int = Qt.ItemDataRole.EditRole
    ) -> bool:
        """Store an edited cell."""
        if role != Qt.ItemDataRole.EditRole:
            return False
        self.rows[index.row()][index.column()] = str(value)
        self.dataChanged.emit(index, index)
        return True

    def flags(self, index: QModelIndex) -> Any:
        """Every cell can be edited."""
        return super().flags(index) | Qt.ItemFlag.ItemIsEditable

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Titles and row numbers."""
        if role == Qt.ItemDataRole.DisplayRole:
            return COLUMNS[section] if orientation == Qt.Orientation.Horizontal else section + 1
        if role == Qt.ItemDataRole.ToolTipRole and orientation == Qt.Orientation.Horizontal:
            return _TIPS[section]
        return None

    def insert(self, place: int, row: Row) -> None:
        """Insert a row before the one at ``place``."""
        self.beginInsertRows(QModelIndex(), place, place)
        self.rows.insert(place, list(row))
        self.endInsertRows()

    def remove(self, places: Iterable[int]) -> None:
        """Remove rows."""
        gone = set(places)
        self.beginResetModel()
        self.rows = [row for place, row in enumerate(self.rows) if place not in gone]
        self.endResetModel()

    def paint(self, places: Iterable[int], color: str) -> None:
        """Set the colour of rows."""
        for place in places:
            self.setData(self.index(place, COLOR), color)

    def fill_colors(self) -> None:
        """Assign a colour to each row that has none."""
        colors = fill_colors([row[COLOR].strip().lower() for row in self.rows])
        for row, color in zip(self.rows, colors, strict=True):
            row[COLOR] = row[COLOR].strip() or color
        if self.rows:
            last = self.index(len(self.rows) - 1, COLOR)
            self.dataChanged.emit(self.index(0, COLOR), last)
