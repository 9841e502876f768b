"""All settings, in one window with pages."""

from __future__ import annotations

from collections.abc import Mapping

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QListWidget, QStackedWidget, QWidget

from ..widgets.dialogs import ToolDialog
from ..widgets.sections import line, scrolled


class SettingsDialog(ToolDialog):
    """Pages of settings, which act at once."""

    def __init__(self, pages: Mapping[str, QWidget], parent: QWidget) -> None:
        self.list, self.pages = QListWidget(), QStackedWidget()
        content = line(self.list, self.pages, shares=(0, 1))
        super().__init__("Settings of MaskInversion", content, parent, scrolls=False)
        self.list.setAccessibleName("Pages of the settings")
        self.list.setSpacing(3)
        self.list.addItems(list(pages))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._areas = [scrolled(page) for page in pages.values()]
        for area in self._areas:
            self.pages.addWidget(area)
        self.list.currentRowChanged.connect(self.pages.setCurrentIndex)
        self.list.setCurrentRow(0)
        self.resize(580, 520)

    def bring(self, page: str = "") -> None:
        """Show the window, at a page if one is named."""
        for item in self.list.findItems(page, Qt.MatchFlag.MatchExactly):
            self.list.setCurrentItem(item)
        self.list.setFixedWidth(self.list.sizeHintForColumn(0) + 28)
        # Pages scroll downwards only.
        widest = max(area.widget().minimumSizeHint().width() for area in self._areas)
        bar = self._areas[0].verticalScrollBar().sizeHint().width()
        self.pages.setMinimumWidth(widest + bar)
        super().bring()
