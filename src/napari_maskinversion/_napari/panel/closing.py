"""Notices that napari's window closes: it tells its widgets nothing, and deletes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject


class WindowClosing(QObject):
    """Calls a function when somebody closes the window of a viewer, also if it stays open then.

    Parameters
    ----------
    viewer : napari.Viewer
    keep : callable
        Writes what is not on the disk yet.
    parent : QObject
    """

    def __init__(self, viewer: Any, keep: Callable[[], object], parent: QObject) -> None:
        super().__init__(parent)
        self._window = ref(viewer.window.main_menu.window())
        self._keep = keep

    def watch(self) -> None:
        """Begin to watch."""
        window = self._window()
        if window is not None:
            window.installEventFilter(self)

    def release(self) -> None:
        """Watch no more."""
        window = self._window()
        if window is not None and isalive(window):
            window.removeEventFilter(self)

    def eventFilter(self, watched: Any, event: Any) -> bool:  # noqa: N802 - Qt's name
        """Keep what is to be kept, and let the window close."""
        if event.type() == QEvent.Type.Close:
            self._keep()
        return False
