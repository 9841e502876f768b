"""A ring around the control that keys go to: napari's themes show the focus of few controls."""

from __future__ import annotations

from qtpy.compat import isalive
from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtGui import QColor, QPainter, QPaintEvent, QPen
from qtpy.QtWidgets import QApplication, QWidget

_WIDTH = 2
_PLACED = (QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Show, QEvent.Type.Hide)


def _application() -> QApplication:
    return QApplication.instance()


class FocusRing(QObject):
    """Follows the focus inside a widget and its dialogs, once Tab has been pressed there."""

    def __init__(self, inside: QWidget) -> None:
        super().__init__(inside)
        self._inside, self._color = inside, QColor("gray")
        self._ring: _Ring | None = None

    def follow(self) -> None:
        """Follow the focus."""
        _application().focusChanged.connect(self._moved)

    def stop(self) -> None:
        """Follow it no more."""
        _application().focusChanged.disconnect(self._moved)
        self._remove()

    def set_color(self, color: str) -> None:
        """Follow the theme."""
        self._color = QColor(color)

    def _moved(self, _: QWidget | None, now: QWidget | None) -> None:
        self._remove()
        if now is None or now.parentWidget() is None or not self._holds(now):
            return
        if now.window().testAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange):
            self._ring = _Ring(now, self._color)

    def _holds(self, widget: QWidget | None) -> bool:
        while widget is not None and widget is not self._inside:
            widget = widget.parentWidget()
        return widget is not None

    def _remove(self) -> None:
        ring, self._ring = self._ring, None
        if ring is not None and isalive(ring):
            ring.hide()
            ring.deleteLater()


class _Ring(QWidget):
    """Lies above a control and lets the mouse through."""

    def __init__(self, control: QWidget, color: QColor) -> None:
        super().__init__(control.parentWidget())
        self.setObjectName("focus ring")
        self._control, self._color = control, color
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setStyleSheet("background: transparent;")  # napari gives each widget one
        control.installEventFilter(self)
        self._place()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Go where the control goes."""
        if event is not None and event.type() in _PLACED and isalive(self._control):
            self._place()
        return False

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: N802 - Qt's name
        """Draw the ring."""
        painter, half = QPainter(self), _WIDTH // 2
        painter.setPen(QPen(self._color, _WIDTH))
        painter.drawRect(self.rect().adjusted(half, half, -half, -half))
        painter.end()

    def _place(self) -> None:
        self.setGeometry(self._control.geometry())
        self.setVisible(not self._control.isHidden())
        self.raise_()
