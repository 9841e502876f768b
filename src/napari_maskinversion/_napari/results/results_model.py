"""Qt model of the results table. It shows the data frame that is exported."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import QModelIndex, QObject, QRect, Qt
from qtpy.QtGui import QColor, QFont, QPainter
from qtpy.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem

from ...app.session import Session
from ...language.ranking.ranking import LabelFigures
from ...results.columns import ColumnSpec, columns_in, is_missing
from ...results.orders import largest_first
from ...review.decisions import Decision
from ..widgets.table_views import RowsModel

if TYPE_CHECKING:
    import pandas as pd


Similarities = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
_SHORT: Final = {"low resolution": "low res."}
_DIGITS: Final = 2  # the columns are narrow
_MISSING: Final = "\N{EN DASH}"
LIKENESS: Final = ColumnSpec(
    name="likeness",
    header="Like",
    explanation="Cosine similarity of the region and what was looked for",
    value=lambda region, info: None,  # A search says it
)
_GREY: Final = QColor(128, 128, 128)
_COMPUTING: Final = "This region has changed; live mode computes it again."
_CHANGED: Final = "This region, or the image, has changed since; press Update."


class ResultsModel(RowsModel):
    """Rows of ``Results.to_frame()``, with what the session's review says about them.

    A search may sort them: a row of the results then has another place in the table.
    """

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._colors: Mapping[str, str] = {}
        self._changed: Collection[int] = ()
        self._bold = QFont()  # of a suggestion that decisions have changed
        self._bold.setBold(True)
        self.columns = [*columns_in("panel"), *columns_in("menu"), LIKENESS]
        self._places = {column.name: place for place, column in enumerate(self.columns)}
        self._similarities: Similarities | None = None  # Of the rows, to what was looked for
        self._rows: Rows = np.zeros(0, np.intp)  # By place in the table
        self._place_of_row: Rows = self._rows
        self.titles = tuple((column.short_title, column.explanation) for column in self.columns)
        self._keep(None)

    def refresh(
        self, colors: Mapping[str, str] | None = None, changed: Collection[int] | None = None
    ) -> None:
        """Redraw the table."""
        if colors is not None:
            self._colors = colors
        if changed is not None:
            self._changed = changed
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
                self.sort_by(None)
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
        self._similarities = None
        self._keep(frame)
        self.endResetModel()

    def sort_by(self, similarities: Similarities | None) -> None:
        """Show the rows most similar to what was looked for first; None: in their own order."""
        before = self._similarities
        if similarities is None or before is None:
            is_same = similarities is before
        else:
            is_same = np.array_equal(similarities, before, equal_nan=True)
        if is_same:
            return
        self.beginResetModel()
        self._similarities = similarities
        self._sort()
        self.endResetModel()

    @property
    def is_sorted(self) -> bool:
        """Whether a search has sorted the rows."""
        return self._similarities is not None

    def row_at(self, place: int) -> int:
        """Return the row of the results at a place in the table; -1 for none."""
        return int(self._rows[place]) if 0 <= place < len(self._rows) else -1

    def place_of(self, row: int) -> int:
        """Return the place of a row of the results in the table."""
        return int(self._place_of_row[row])

    def _sort(self) -> None:
        self._rows = self._place_of_row = np.arange(self.count)
        likeness = [np.nan] * self.count
        if self._similarities is not None:
            self._rows = largest_first(self._similarities)
            self._place_of_row = np.argsort(self._rows)
            likeness = self._similarities.tolist()
        self._cells[-1] = likeness

    def _keep(self, frame: pd.DataFrame | None) -> None:
        self.frame = None
        self._cells: list[list[Any]] = [[] for _ in self.columns]
        if frame is None or not len(frame):
            self._sort()
            return
        self.frame = frame
        # Qt requests thousands of cells; lists are many times faster than a frame.
        for cells, column in zip(self._cells, self.columns, strict=True):
            if column.name in frame:
                cells += frame[column.name].tolist()
            else:
                cells += [""] * len(frame)
        self._sort()

    @property
    def count(self) -> int:
        """Number of regions."""
        return 0 if self.frame is None else len(self.frame)

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text, tooltip, alignment or colour of a cell; a share under UserRole."""
        roles = Qt.ItemDataRole
        row, column = self.row_at(index.row()), self.columns[index.column()]
        value = self._cells[index.column()][row]
        is_changed = row in self._changed
        if role == roles.ForegroundRole and is_changed:
            return _GREY
        if role == roles.DecorationRole and column.name == "suggestion":
            return self._chip(row, value)
        if role == roles.ToolTipRole and is_changed:
            return _COMPUTING if self._session.run.computing else _CHANGED
        if role == roles.DisplayRole and is_changed and column.name == "status":
            return "computing" if self._session.run.computing else "outdated"
        if column.name == "suggestion" and role == roles.FontRole and self._changed_from(row):
            return self._bold
        # What the review says of a region goes before what the table says.
        if column.name == "suggestion" and role == roles.DisplayRole:
            return self._word(row, value)
        if column.name == "suggestion" and role == roles.ToolTipRole:
            return self._tip(row, value)
        decision = self._decision(row)
        if decision is not None and column.name == "status" and role == roles.DisplayRole:
            return decision.status
        if decision is not None and column.name == "status" and role == roles.ToolTipRole:
            return f"{decision.status}; {value}"
        if column.name in LabelFigures._fields:
            value = self._figure(row, column.name, value)
        return _cell(column, value, role)

    def _decision(self, row: int) -> Decision | None:
        review = self._session.reviewed
        return None if review is None else review.decision(row)

    def _word(self, row: int, suggestion: str) -> str:
        """Return the accepted word of a row, or else its suggestion."""
        decision = self._decision(row)
        return suggestion if decision is None else decision.label or suggestion

    def _changed_from(self, row: int) -> str:
        """Return what was suggested before decisions changed it; "" if they did not."""
        return str(self._cells[self._places["changed_by_decisions"]][row] or "")

    def _tip(self, row: int, suggestion: str) -> str:
        """Return what a row was accepted as, or why its suggestion changed."""
        review, before = self._session.reviewed, self._changed_from(row)
        accepted = "" if review is None else review.accepted_tip(row)
        changed = before and f"{suggestion}, by your decisions; {before} by text alone"
        return accepted or changed or suggestion

    def _figure(self, row: int, name: str, value: float) -> float:
        """Return a figure of the accepted word of a row, or else of its suggestion."""
        review = self._session.reviewed
        figures = None if review is None else review.accepted_figures(row)
        return value if figures is None else float(getattr(figures, name))

    def _chip(self, row: int, suggestion: str) -> QColor | None:
        """Return the colour of a row's word; None for "none of these"."""
        color = self._colors.get(self._word(row, suggestion))
        return QColor(color) if color else None


def _cell(column: ColumnSpec, value: Any, role: int) -> Any:
    """Return text, tooltip or alignment of a value; a share under UserRole."""
    roles, sides = Qt.ItemDataRole, Qt.AlignmentFlag
    if role == roles.DisplayRole:
        digits = column.digits if column is LIKENESS else _DIGITS
        text = column.text(value, digits=digits, missing=_MISSING)
        return _summary(text) if column.kind == "status" else text
    if role == roles.UserRole and column.kind == "share" and not is_missing(value):
        return float(value)
    if role == roles.ToolTipRole:
        return str(value) if column.kind in ("text", "status") else column.explanation
    if role == roles.TextAlignmentRole and column.kind == "status":
        return int(sides.AlignLeft | sides.AlignVCenter)
    if role == roles.TextAlignmentRole and column.kind != "text":
        return int(sides.AlignRight | sides.AlignVCenter)
    return None


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
