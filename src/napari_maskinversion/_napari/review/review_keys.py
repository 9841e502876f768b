"""Keys of the review: in its section, and on the canvas while it has been switched on.

Nothing is bound in napari, so nothing has to be restored: the keys are taken before napari sees
them, from the canvas and the table while reviewing, from the section always. Text fields keep
theirs.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from qtpy.QtCore import QEvent, QObject, Signal
from qtpy.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QLineEdit,
    QMainWindow,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

from ..widgets.keys import REVIEW, named, pressed

# Action, the key as it is written on its button.
KEYS: Final[dict[str, str]] = {
    name: key.keys[0] for name, key in named(REVIEW).items() if name != "end"
}
_KINDS: Final = (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress)
_TEXT: Final = (QLineEdit, QTextEdit, QPlainTextEdit, QAbstractSpinBox)
_REPEATED: Final = ("back", "next")  # what a key held down does over and over


class ReviewKeys(QObject):
    """Turns keys into actions.

    Signals
    -------
    pressed : str
        One of `KEYS`, or "end".
    """

    pressed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._section: list[QWidget] = []
        self._beyond: list[QWidget] = []
        self.active = False  # whether there is something to decide

    def watch(self, section: QWidget) -> None:
        """Take keys from a part of the panel."""
        self._section = self._install(section)

    def begin(self, *parts: QWidget | None) -> None:
        """Take keys from other parts of the window too, until `end`."""
        self.end()
        for part in parts:
            if part is not None:
                self._beyond += self._install(part)

    def end(self) -> None:
        """Leave those other parts their keys."""
        for widget in self._beyond:
            with suppress(RuntimeError):  # gone with its window
                widget.removeEventFilter(self)
        self._beyond = []

    @property
    def everywhere(self) -> bool:
        """Whether keys are taken from other parts too."""
        return bool(self._beyond)

    def eventFilter(self, watched: Any, event: Any) -> bool:  # noqa: N802 - Qt's name
        """Take the keys that are ours; napari's shortcuts do not see them."""
        if event.type() not in _KINDS or not self.active:
            return False
        action = pressed(event, REVIEW)
        typing = isinstance(watched, _TEXT) or isinstance(QApplication.focusWidget(), _TEXT)
        if not action or typing:
            return False
        if action == "end" and not self.everywhere:
            return False
        event.accept()
        if event.type() == QEvent.Type.KeyPress and (
            not event.isAutoRepeat() or action in _REPEATED
        ):
            self.pressed.emit(action)
        return True

    def _install(self, part: QWidget) -> list[QWidget]:
        widgets = [part, *part.findChildren(QWidget)]
        widgets = [widget for widget in widgets if not isinstance(widget, _TEXT)]
        for widget in widgets:
            widget.installEventFilter(self)
        return widgets


def canvas_of(widget: QWidget) -> QWidget | None:
    """Return the central widget of a docked widget's main window; None without one."""
    parent: QWidget | None = widget
    while parent is not None and not isinstance(parent, QMainWindow):
        parent = parent.parentWidget()
    return None if parent is None else parent.centralWidget()
