"""Bars of the best words for a region."""

from __future__ import annotations

from collections.abc import Sequence

from qtpy.QtCore import QRectF, QSize, Qt
from qtpy.QtGui import QColor, QPainter, QPaintEvent
from qtpy.QtWidgets import QSizePolicy, QWidget

from ...results.columns import CONFIDENCE

SHOWN = 5
_SHORTEST = 100  # pixels for a bar and its number


class Bars(QWidget):
    """Up to five words with their confidence; a full bar is 1."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[str, float]] = []
        self.bar_color, self.text_color = QColor("#6a7b8c"), QColor("#f0f1f2")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Best words for the selected region")

    def show_rows(self, rows: Sequence[tuple[str, float]]) -> None:
        """Show words with their confidence in 0..1, best first."""
        self._rows = list(rows)[:SHOWN]
        text = ", ".join(f"{word} {value:.0%}" for word, value in self._rows)
        self.setAccessibleDescription(text)
        self.setToolTip(f"{text}\n\n{CONFIDENCE}.")
        self.updateGeometry()
        self.update()

    def _row_height(self) -> int:
        return self.fontMetrics().height() + 6

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Height of the current rows."""
        return QSize(200, self._row_height() * len(self._rows))

    def name_width(self) -> int:
        """Return the room for names: whole ones, as long as a short bar fits beside them."""
        metrics = self.fontMetrics()
        widest = max((metrics.horizontalAdvance(word) for word, _ in self._rows), default=0)
        return max(min(widest + 10, self.width() - _SHORTEST), 0)

    def paintEvent(self, event: QPaintEvent | None) -> None:  # noqa: N802 - Qt's name
        """Draw the bars."""
        if not self._rows:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics, height = self.fontMetrics(), self._row_height()
        number = metrics.horizontalAdvance("100 %") + 6
        names = self.name_width()
        room = max(self.width() - names - number, 10)
        middle = Qt.AlignmentFlag.AlignVCenter
        for row, (word, value) in enumerate(self._rows):
            top = row * height
            painter.setPen(self.text_color)
            text = metrics.elidedText(word, Qt.TextElideMode.ElideRight, names - 8)
            painter.drawText(QRectF(0, top, names, height), middle, text)
            share = min(max(value, 0.0), 1.0)
            color = QColor(self.bar_color)
            color.setAlphaF(1.0 if row == 0 else 0.6)
            painter.setBrush(color)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawRoundedRect(QRectF(names, top + 4, max(room * share, 1), height - 8), 2, 2)
            painter.setPen(self.text_color)
            place = QRectF(names + room, top, number, height)
            painter.drawText(
                place, middle | Qt.AlignmentFlag.AlignRight, f"{value:.0%}".replace("%", " %")
            )
        painter.end()
