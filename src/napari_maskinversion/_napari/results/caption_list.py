"""The captions of one region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Qt
from qtpy.QtGui import QAction
from qtpy.QtWidgets import QAbstractItemView, QListView, QListWidget, QListWidgetItem, QSizePolicy

from ..widgets.keys import CAPTIONS, pressed
from ..widgets.sections import copy_texts

if TYPE_CHECKING:
    from ...results.region_result import RegionResult

_TALLEST = 12  # lines of text


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
