"""Keys of the review: in its section, and on the canvas while the review is on.

An event filter takes the keys before napari sees them, so nothing is bound in napari and nothing
has to be restored. Text fields keep their keys.
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

from ..widgets.keys import PANEL, REVIEW, named, pressed
from ..widgets.sections import HAS_REVIEW_KEYS

# Action, and its key as shown on the button.
KEYS: Final[dict[str, str]] = {
    name: key.keys[0] for name, key in named(REVIEW).items() if name != "end"
}
_KINDS: Final = (QEvent.Type.ShortcutOverride, QEvent.Type.KeyPress)
_TEXT: Final = (QLineEdit, QTextEdit, QPlainTextEdit, QAbstractSpinBox)
_UNDO: Final = ("undo", "redo")  # they have another key where no layer has the focus
_REPEATED: Final = ("back", "next")  # actions that a held key repeats


class ReviewKeys(QObject):
    """Turns keys into actions."""

    pressed = Signal(str)  # One of `KEYS`, or "end"

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._own: list[QWidget] = []
        self._beyond: list[QWidget] = []
        self.active = False  # whether a decision is possible

    def watch(self, section: QWidget) -> None:
        """Handle the keys of a part of the panel."""
        self._own = [section]
        self._install(section)

    def begin(self, canvas: QWidget | None, panel: QWidget) -> None:
        """Also handle the keys of the canvas and of parts with `HAS_REVIEW_KEYS`, until `end`."""
        self.end()
        also = [part for part in panel.findChildren(QWidget) if part.property(HAS_REVIEW_KEYS)]
        self._own += also
        for part in (canvas, *also):
            if part is not None:
                self._beyond += self._install(part)

    def end(self) -> None:
        """Return the keys to the other widgets."""
        del self._own[1:]
        for widget in self._beyond:
            with suppress(RuntimeError):  # deleted with its window
                widget.removeEventFilter(self)
        self._beyond = []

    @property
    def everywhere(self) -> bool:
        """Whether keys of other widgets are handled."""
        return bool(self._beyond)

    def eventFilter(self, watched: Any, event: Any) -> bool:  # noqa: N802 - Qt's name
        """Handle our keys before napari's shortcuts."""
        if event.type() not in _KINDS or not self.active:
            return False
        action = pressed(event, REVIEW)
        # On the canvas, Ctrl+Z is the layer's.
        if pressed(event, PANEL) in _UNDO and any(
            part is watched or part.isAncestorOf(watched) for part in self._own
        ):
            action = pressed(event, PANEL)
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
