"""The topics of the panel, each a package that fills a tab, pages of the settings, or both.

To add a topic, write a package whose ``__init__`` has ``TAB`` (a key of `TABS`) and
``content(panel)``, or ``pages(panel)``, which returns pages of the settings by title, with a
protocol of what they need of the panel; then add its name to `_TOPICS`. A topic that holds workers
stops them on ``panel.closed``.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Final, cast

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import (
    QListWidget,
    QScrollArea,
    QStackedWidget,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from ..widgets.dialogs import ToolDialog
from ..widgets.sections import Note, line, scrolled

TABS: Final = {"label": "Label", "review": "Review", "explore": "Explore", "images": "Images"}
_TOPICS: Final = (
    *("model", "inputs", "vocabulary", "run", "results", "review"),
    *("library", "explore", "images"),
)


class Tabs(QTabWidget):
    """The tabs of the panel, by the keys of `TABS`; each scrolls.

    A tab is filled when it comes into view, or by `fill`: all at once would freeze the window.
    """

    filled = Signal(str)

    def __init__(self, panel: QWidget) -> None:
        super().__init__()
        self.setDocumentMode(True)
        bar = self.tabBar()
        if bar is not None:
            bar.setDrawBase(False)
            bar.setExpanding(True)
            bar.setAccessibleName("Tabs")
        self.setAccessibleName("Steps of the work")
        self._panel, self._empty = panel, set(TABS)
        self.areas: dict[str, QScrollArea] = {}
        for name, title in TABS.items():
            self.areas[name] = scrolled()
            self.addTab(self.areas[name], title)
        self.fill(self.shown)
        self.currentChanged.connect(lambda _: self.fill(self.shown))

    def fill(self, name: str) -> None:
        """Put the widgets of the topics into a tab, unless they are there."""
        if name not in self._empty:
            return
        self._empty.remove(name)
        inside = self.areas[name].widget()
        layout = cast(QVBoxLayout, inside.layout())
        for topic in _topics():
            if getattr(topic, "TAB", "") == name:
                try:
                    content = topic.content(self._panel)
                except Exception as error:  # the others work
                    content = Note(f"This part does not work: {error}")
                layout.insertWidget(layout.count() - 1, content)  # above a space
        self.filled.emit(name)

    @property
    def shown(self) -> str:
        """The tab in view."""
        return list(TABS)[self.currentIndex()]

    def show_tab(self, name: str) -> QScrollArea:
        """Bring a tab into view; an unknown name is ignored."""
        if name in TABS:
            self.setCurrentIndex(list(TABS).index(name))
        return self.areas[self.shown]

    def set_note(self, name: str, note: str) -> None:
        """Show a note after the title of a tab: ``Review 12/43``."""
        self.setTabText(list(TABS).index(name), f"{TABS[name]} {note}".strip())


def settings_pages(panel: QWidget) -> dict[str, QWidget]:
    """Return the pages of the settings by title, in the order of the topics."""
    pages: dict[str, QWidget] = {}
    for topic in _topics():
        if hasattr(topic, "pages"):
            pages |= topic.pages(panel)
    return pages


def _topics() -> list[ModuleType]:
    return [import_module(f"...{name}", __name__) for name in _TOPICS]


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
