"""Keys of the review: in its section, and anywhere in napari's window while the review is on.

An event filter takes the keys before napari sees them, so nothing is bound in napari and nothing
has to be restored. Text fields keep their keys.
"""

from __future__ import annotations

from typing import Final

from qtpy.QtCore import QEvent, QObject, Signal
from qtpy.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QLineEdit,
    QMainWindow,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

from ...app.session import Session
from ..widgets.keys import PANEL, REVIEW, named, pressed
from ..widgets.sections import HAS_OWN_KEYS, HAS_REVIEW_KEYS, around

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

    def __init__(self, section: QWidget, session: Session, parent: QObject) -> None:
        super().__init__(parent)
        self._section, self._session = section, session
        self._active = False

    @property
    def active(self) -> bool:
        """Whether a decision is possible."""
        return self._active

    @active.setter
    def active(self, on: bool) -> None:
        app = QApplication.instance()
        if on != self._active and app is not None:
            # The focus may be on any widget of the window, also on one that does not exist yet.
            if on:
                app.installEventFilter(self)
            else:
                app.removeEventFilter(self)
        self._active = on

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Handle our keys before napari's shortcuts."""
        if event.type() not in _KINDS or not isinstance(watched, QWidget):
            return False
        if _has(watched, HAS_OWN_KEYS):
            return False
        is_inside = self._section.isAncestorOf(watched)
        reviewing = self._session.review.reviewing
        # Also the main window of a panel that floats in a window of its own.
        windows = (self._section.window(), around(self._section, QMainWindow))
        # Some widgets have an attribute `window` of their own.
        if not is_inside and not (reviewing and QWidget.window(watched) in windows):
            return False
        action = pressed(event, REVIEW)
        # On the canvas, Ctrl+Z is the layer's.
        if pressed(event, PANEL) in _UNDO and (is_inside or _has(watched, HAS_REVIEW_KEYS)):
            action = pressed(event, PANEL)
        typing = _takes_text(watched) or _takes_text(QApplication.focusWidget())
        if not action or typing or (action == "end" and not reviewing):
            return False
        event.accept()
        if event.type() == QEvent.Type.KeyPress and (
            not event.isAutoRepeat() or action in _REPEATED
        ):
            self.pressed.emit(action)
        return True


def _takes_text(widget: QWidget | None) -> bool:
    if isinstance(widget, QAbstractItemView):  # a cell that a key begins to edit
        return bool(widget.editTriggers() & QAbstractItemView.EditTrigger.AnyKeyPressed)
    return isinstance(widget, _TEXT)


def _has(widget: QWidget | None, name: str) -> bool:
    """Return whether a widget, or one that it is in, has a property."""
    while widget is not None and not widget.property(name):
        widget = widget.parentWidget()
    return widget is not None
