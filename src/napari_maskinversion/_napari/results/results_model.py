"""Qt model of the results table. It shows the data frame that is exported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QModelIndex, QObject, QRect, Qt
from qtpy.QtGui import QColor, QPainter
from qtpy.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from ...app.session import Session
from ...results.columns import columns_in, is_missing
from ..widgets.table_views import RowsModel

if TYPE_CHECKING:
    import pandas as pd

_SHORT: Final = {"low resolution": "low res."}
_MARKED: Final = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole)
_DIGITS: Final = 2  # the columns are narrow
_MISSING: Final = "\N{EN DASH}"
_GREY: Final = QColor(128, 128, 128)
_COMPUTING: Final = "This region has changed; live mode computes it again."
_CHANGED: Final = "This region, or the image, has changed since; press Update."


class ResultsModel(RowsModel):
    """Rows of ``Results.to_frame()``, with what the session's review says about them."""

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._colors: Mapping[str, str] = {}
        self._changed: Collection[int] = ()
        self.columns = [*columns_in("panel"), *columns_in("menu")]
        self.titles = tuple((column.short_title, column.explanation) for column in self.columns)
        self._keep(None)

    def refresh(
        self, colors: Mapping[str, str] | None = None, changed: Collection[int] | None = None
    ) -> None:
        """Redraw the table."""
        self._colors = self._colors if colors is None else colors
        self._changed = self._changed if changed is None else changed
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
            return
        # Qt requests thousands of cells; lists are many times faster than a frame.
        self._cells = [
            frame[column.name].tolist() if column.name in frame else [""] * len(frame)
            for column in self.columns
        ]

    @property
    def count(self) -> int:
        """Number of regions."""
        return 0 if self.frame is None else len(self.frame)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, tooltip, alignment or colour of a cell; a share under UserRole."""
        column = self.columns[index.column()]
        name, number = column.name, column.kind in ("number", "share")
        value: Any = self._cells[index.column()][index.row()]
        if role == Qt.ItemDataRole.ForegroundRole:
            return _GREY if index.row() in self._changed else None
        if role == Qt.ItemDataRole.DecorationRole:
            return self._chip(index.row(), value) if name == "suggestion" else None
        if role == Qt.ItemDataRole.ToolTipRole and index.row() in self._changed:
            return _COMPUTING if self._session.run.computing else _CHANGED
        if (
            role == Qt.ItemDataRole.DisplayRole
            and name == "status"
            and index.row() in self._changed
        ):
            return "computing" if self._session.run.computing else "outdated"
        review = self._session.reviewed
        overlay = None if review is None else review.overlay(index.row())
        if name in ("suggestion", "status") and role in _MARKED:
            if overlay is not None and name == "suggestion":
                tip = overlay.tip or overlay.suggestion
                return tip if role == Qt.ItemDataRole.ToolTipRole else overlay.suggestion
            if overlay is not None and overlay.status:
                if role == Qt.ItemDataRole.DisplayRole:
                    return overlay.status
                return f"{overlay.status}; {value}"
        if number and overlay is not None:
            value = overlay.figures.get(name, value)
        if role == Qt.ItemDataRole.DisplayRole:
            text = column.text(value, digits=_DIGITS, missing=_MISSING)
            return _summary(text) if column.kind == "status" else text
        if role == Qt.ItemDataRole.UserRole:
            return float(value) if column.kind == "share" and not is_missing(value) else None
        if role == Qt.ItemDataRole.ToolTipRole:
            return str(value) if column.kind in ("text", "status") else column.explanation
        if role == Qt.ItemDataRole.TextAlignmentRole and column.kind != "text":
            left = column.kind == "status"
            side = Qt.AlignmentFlag.AlignLeft if left else Qt.AlignmentFlag.AlignRight
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        return None

    def _chip(self, row: int, word: str) -> QColor | None:
        """Return the colour of a row's word; None for "none of these"."""
        review = self._session.reviewed
        overlay = None if review is None else review.overlay(row)
        color = self._colors.get(word if overlay is None else overlay.word)
        return QColor(color) if color else None


def _summary(status: str) -> str:
    """Return a status without its reasons: the cell is narrow, and the tooltip names them."""
    summary = status.split(":")[0]
    return _SHORT.get(summary, summary)


class BarDelegate(QStyledItemDelegate):
    """Draws a share above a bar; a full bar is 1."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.color = QColor("#6a7b8c")

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex) -> None:
        """Draw one cell."""
        super().paint(painter, option, index)
        value = index.data(Qt.ItemDataRole.UserRole)
        if value is None:
            return
        share = min(max(value, 0.0), 1.0)
        room = option.rect.adjusted(2, 0, -2, -2)
        bar = QRect(room.left(), room.bottom() - 2, int(room.width() * share), 3)
        painter.fillRect(bar, self.color)
