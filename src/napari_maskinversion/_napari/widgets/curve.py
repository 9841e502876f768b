"""A small plot of the loss of one region over the optimisation steps."""

from __future__ import annotations

from collections.abc import Sequence

from qtpy.QtCore import QPointF, QRectF, QSize, Qt, Signal
from qtpy.QtGui import QColor, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from qtpy.QtWidgets import QSizePolicy, QWidget

_HEIGHT = 84
_MARGIN = 6


class LossCurve(QWidget):
    """Loss by step; a click selects a step, hovering shows its values."""

    picked = Signal(int)  # a step

    def __init__(self) -> None:
        super().__init__()
        self._losses: list[float] = []
        self._step = 0
        self._under: int | None = None
        self.line_color, self.text_color = QColor("#6a7b8c"), QColor("#f0f1f2")
        self.setMouseTracking(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Loss of the selected region at each step")
        self.setToolTip("The loss at each step: click to see the map there")

    def show_losses(self, losses: Sequence[float]) -> None:
        """Show a curve; none for an empty one."""
        self._losses = [float(loss) for loss in losses]
        self._under = None
        self.show_step(min(self._step, max(len(self._losses) - 1, 0)))

    def show_step(self, step: int) -> None:
        """Mark a step."""
        self._step = step
        self.setAccessibleDescription(self.text)
        self.update()

    @property
    def text(self) -> str:
        """Values of the step under the pointer, else of the marked step."""
        if not self._losses:
            return ""
        step = self._step if self._under is None else self._under
        return f"step {step} of {len(self._losses) - 1}: loss {self._losses[step]:.3f}"

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Full width, fixed height."""
        return QSize(200, _HEIGHT)

    def place_of(self, step: int) -> QPointF:
        """Return the position of a step's loss."""
        last = max(len(self._losses) - 1, 1)
        low, high = min(self._losses), max(self._losses)
        top = self.fontMetrics().height() + 2 * _MARGIN
        share = (self._losses[step] - low) / (high - low) if high > low else 0.0
        return QPointF(
            _MARGIN + (self.width() - 2 * _MARGIN) * step / last,
            self.height() - _MARGIN - (self.height() - top - _MARGIN) * share,
        )

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        """Draw the curve, the marked step, and its values."""
        if not self._losses:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        places = [self.place_of(step) for step in range(len(self._losses))]
        faint = QColor(self.text_color)
        faint.setAlphaF(0.25)
        bottom = self.height() - _MARGIN / 2
        painter.setPen(QPen(faint, 1))
        painter.drawLine(QPointF(_MARGIN, bottom), QPointF(self.width() - _MARGIN, bottom))
        painter.setPen(QPen(self.line_color, 2))
        painter.drawPolyline(QPolygonF(places))
        shown = self._step if self._under is None else self._under
        for step, place in enumerate(places):
            if step != shown and len(places) > 60:
                continue
            painter.setPen(QPen(self.text_color if step == shown else self.line_color, 2))
            painter.setBrush(self.line_color)
            size = 4.5 if step == shown else 2.0
            painter.drawEllipse(place, size, size)
        painter.setPen(self.text_color)
        room = QRectF(_MARGIN, 2, self.width() - 2 * _MARGIN, self.fontMetrics().height() + 2)
        painter.drawText(room, Qt.AlignmentFlag.AlignRight, self.text)
        painter.end()

    def mouseMoveEvent(self, event: QMouseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Show the values under the pointer."""
        if event is not None and self._losses:
            self._under = self._step_at(event.position().x())
            self.update()

    def leaveEvent(self, event: object) -> None:  # noqa: N802 - Qt's name
        """Return to the marked step."""
        self._under = None
        self.update()

    def mousePressEvent(self, event: QMouseEvent | None) -> None:  # noqa: N802 - Qt's name
        """Choose the step under the pointer."""
        if event is not None and self._losses:
            self.picked.emit(self._step_at(event.position().x()))

    def _step_at(self, x: float) -> int:
        last = len(self._losses) - 1
        share = (x - _MARGIN) / max(self.width() - 2 * _MARGIN, 1)
        return min(max(round(share * last), 0), last)
