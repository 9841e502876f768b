"""The best captions of one region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Qt
from qtpy.QtGui import QAction, QGuiApplication
from qtpy.QtWidgets import QAbstractItemView, QListView, QListWidget, QListWidgetItem, QSizePolicy

from ...results.spreadsheet import without_formula
from ..widgets.keys import CAPTIONS, pressed

if TYPE_CHECKING:
    from ...language.captions.bank import CaptionMatches

_TALLEST = 12  # lines of text


class CaptionList(QListWidget):
    """Captions with their similarities, best first; they wrap and can be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Best captions of the selected region")
        self.setToolTip("Similarity and caption; Ctrl+C copies the selected ones, or all")
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

    def show_matches(self, matches: CaptionMatches | None) -> None:
        """Show captions; hide the list if there are none."""
        self.clear()
        self.setVisible(matches is not None)
        if matches is None:
            return
        for text, similarity in zip(matches.captions, matches.similarities, strict=True):
            item = QListWidgetItem(f"{similarity:.2f}  {text}")
            item.setData(Qt.ItemDataRole.UserRole, text)
            self.addItem(item)
        self._fit()

    def copy(self) -> None:
        """Copy the selected captions, or all, to the clipboard: one a line, without numbers."""
        items = self.selectedItems() or [self.item(row) for row in range(self.count())]
        rows = sorted(items, key=self.row)
        captions = [str(item.data(Qt.ItemDataRole.UserRole)) for item in rows]
        text = "\n".join(map(without_formula, captions))
        clipboard = QGuiApplication.clipboard()
        if clipboard is not None:
            clipboard.setText(text)

    def keyPressEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Copy with Ctrl+C; Qt would copy one caption, with its number."""
        if pressed(event, CAPTIONS) == "copy":
            self.copy()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
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
