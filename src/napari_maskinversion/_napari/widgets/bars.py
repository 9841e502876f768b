"""Bars of the best labels of a region."""

from __future__ import annotations

from collections.abc import Sequence

from qtpy.QtCore import QRectF, QSize, Qt
from qtpy.QtGui import QColor, QPainter, QPaintEvent
from qtpy.QtWidgets import QSizePolicy, QWidget

SHOWN = 5


class Bars(QWidget):
    """Up to five labels with their similarities; a longer bar is a closer label."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[str, float]] = []
        self.bar_color, self.text_color = QColor("#6a7b8c"), QColor("#f0f1f2")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Best labels of the selected region")

    def show_rows(self, rows: Sequence[tuple[str, float]]) -> None:
        """Show labels with their similarities, best first."""
        self._rows = list(rows)[:SHOWN]
        text = ", ".join(f"{label} {value:.2f}" for label, value in self._rows)
        self.setAccessibleDescription(text)
        self.setToolTip(text)
        self.updateGeometry()
        self.update()

    def _row_height(self) -> int:
        return self.fontMetrics().height() + 6

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Height of the current rows."""
        return QSize(200, self._row_height() * len(self._rows))

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        """Draw the bars."""
        if not self._rows:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics, height = self.fontMetrics(), self._row_height()
        number = metrics.horizontalAdvance("-0.00") + 6
        names = min(
            max(metrics.horizontalAdvance(label) for label, _ in self._rows) + 8,
            int(self.width() * 0.5),
        )
        room = max(self.width() - names - number, 10)
        largest = max(max(value for _, value in self._rows), 1e-9)
        middle = Qt.AlignmentFlag.AlignVCenter
        for row, (label, value) in enumerate(self._rows):
            top = row * height
            painter.setPen(self.text_color)
            text = metrics.elidedText(label, Qt.TextElideMode.ElideRight, names - 8)
            painter.drawText(QRectF(0, top, names, height), middle, text)
            share = min(max(value / largest, 0.0), 1.0)
            color = QColor(self.bar_color)
            color.setAlphaF(1.0 if row == 0 else 0.6)
            painter.setBrush(color)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawRoundedRect(QRectF(names, top + 4, max(room * share, 1), height - 8), 2, 2)
            painter.setPen(self.text_color)
            place = QRectF(names + room, top, number, height)
            painter.drawText(place, middle | Qt.AlignmentFlag.AlignRight, f"{value:.2f}")
        painter.end()
