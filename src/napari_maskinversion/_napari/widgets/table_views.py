"""Tables of whole rows, their models, and what is copied from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qtpy.QtCore import (
    QAbstractItemModel,
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    Qt,
)
from qtpy.QtGui import QGuiApplication, QIcon, QKeyEvent
from qtpy.QtWidgets import (
    QAbstractItemView,
    QSizePolicy,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
)

from ...results.export.table_export import without_formula
from .keys import copies


class RowsModel(QAbstractTableModel):
    """A model of rows; a subclass has `count` and ``data``."""

    titles: tuple[tuple[str, str], ...] = ()  # Of the columns, with their tool tips

    @property
    def count(self) -> int:
        """Number of rows."""
        raise NotImplementedError

    def rowCount(self, parent: QModelIndex | None = None) -> int:  # noqa: N802 - Qt's name
        """Return the number of rows."""
        return 0 if parent is not None and parent.isValid() else self.count

    def columnCount(self, parent: QModelIndex | None = None) -> int:  # noqa: N802 - Qt's name
        """Return the number of columns."""
        return 0 if parent is not None and parent.isValid() else len(self.titles)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = 0) -> Any:  # noqa: N802
        """Return a title, or what it means."""
        roles = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole)
        if orientation != Qt.Orientation.Horizontal or role not in roles:
            return None
        return self.titles[section][roles.index(role)]


class TrueIcons(QStyledItemDelegate):
    """Leaves the icons of selected rows as they are; Qt tints colours and pictures."""

    def initStyleOption(self, option: QStyleOptionViewItem, index: QModelIndex) -> None:  # noqa: N802 - Qt's name
        """Use the same pixels in a selected row."""
        super().initStyleOption(option, index)
        if not option.icon.isNull():
            pixels = option.icon.pixmap(option.decorationSize)
            option.icon.addPixmap(pixels, QIcon.Mode.Selected)


def copy_texts(texts: Iterable[str]) -> None:
    """Copy texts to the clipboard, one a line, none of which a spreadsheet runs as a formula."""
    clipboard = QGuiApplication.clipboard()
    if clipboard is not None:
        clipboard.setText("\n".join(map(_harmless, texts)))


def _harmless(text: str) -> str:
    try:
        float(text)
    except ValueError:
        return str(without_formula(text))
    return text


class _Table(QTableView):
    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802 - Qt's name
        """Copy the current cell as Qt does, but as `copy_texts`."""
        if copies(event) and self.currentIndex().isValid():
            copy_texts([str(self.currentIndex().data() or "")])
        else:
            super().keyPressEvent(event)


def table_view(model: QAbstractItemModel, name: str) -> QTableView:
    """Make a table of whole rows, without a grid, that follows the dock's width."""
    table = _Table()
    table.setModel(model)
    table.setItemDelegate(TrueIcons(table))
    table.setAccessibleName(name)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.setTabKeyNavigation(False)  # Tab leaves the table, arrows move in it
    table.setShowGrid(False)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(table.fontMetrics().height() + 8)
    table.horizontalHeader().setHighlightSections(False)
    table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    table.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return table


def select_row(table: QTableView, row: int) -> None:
    """Select one row and no other.

    ``QTableView.selectRow`` adds the row to others while Ctrl is held, as it is in Ctrl+Return.
    """
    flags = QItemSelectionModel.SelectionFlag
    index = table.model().index(row, 0)
    table.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
