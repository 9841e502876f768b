"""Notices that napari's window closes: it tells its widgets nothing, and deletes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, QTimer, Signal
from qtpy.QtWidgets import QMainWindow, QWidget


class WindowClosing(QObject):
    """Notices when somebody closes the window of a panel, also if it stays open then."""

    closing = Signal()

    def __init__(self, panel: QWidget) -> None:
        super().__init__(panel)
        self._panel = panel
        self._window: Callable[[], QMainWindow | None] = _nothing

    def watch(self) -> None:
        """Begin to watch, once the panel is docked."""
        QTimer.singleShot(0, self._find)

    def _find(self) -> None:
        if not isalive(self._panel):  # PySide calls this also if the panel is gone meanwhile
            return
        window = self._panel.window()
        if isinstance(window, QMainWindow):
            self._window = ref(window)  # a closed window is to be freed
            window.installEventFilter(self)

    def release(self) -> None:
        """Watch no more."""
        window, self._window = self._window(), _nothing
        if window is not None and isalive(window):
            window.removeEventFilter(self)

    def eventFilter(self, watched: Any, event: Any) -> bool:  # noqa: N802 - Qt's name
        """Tell of it, and let the window close."""
        if event.type() == QEvent.Type.Close:
            self.closing.emit()
        return False


def _nothing() -> None:
    """Stand in for the reference to a window."""
