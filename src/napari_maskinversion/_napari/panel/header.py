"""The head of the panel."""

from __future__ import annotations

from qtpy.QtCore import Qt
from qtpy.QtGui import QShortcut
from qtpy.QtWidgets import QHBoxLayout, QPushButton, QWidget

from ..widgets.keys import PANEL, named, shortcut


class PanelHeader(QWidget):
    """Buttons for preferences and for the list of keys.

    Parameters
    ----------
    panel : QWidget
        Where the key of the list works.
    """

    def __init__(self, panel: QWidget) -> None:
        super().__init__()
        key = named(PANEL)["help"]
        self.keys = QPushButton("? Keys")
        self.keys.setToolTip(f"All keys and what they do ({key.shown})")
        self.keys.setAccessibleName("Keys")
        self.shortcut = QShortcut(shortcut(PANEL, "help"), panel)
        self.shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.shortcut.activated.connect(self.keys.click)
        self.preferences = QPushButton("Preferences...")
        self.preferences.setToolTip("Defaults, colours and the cache on disk")
        self.settings = QPushButton("Settings...")
        self.settings.setToolTip("Model, method, regions, words and limits")
        row = QHBoxLayout(self)
        row.setContentsMargins(6, 2, 6, 2)
        row.setSpacing(4)
        row.addStretch(1)
        row.addWidget(self.preferences)
        row.addWidget(self.settings)
        row.addWidget(self.keys)
