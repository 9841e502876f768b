"""What a reviewer looks at: the region cut out of its image, and a button for each suggestion."""

from __future__ import annotations

from typing import Any, Final

from qtpy.QtCore import QLineF, QRectF, Qt
from qtpy.QtGui import QColor, QImage, QPainter, QPen, QPixmap
from qtpy.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy, QWidget
from superqt import QElidingLabel

from ..layers.overlays import Crop
from .review_state import Choice

SIDE: Final = 120
_TONES: Final = (("black", 3.5), ("white", 1.5))
_CHIP: Final = 10  # pixels


class CropView(QWidget):
    """The region in question, large enough to recognise; empty without one."""

    def __init__(self) -> None:
        super().__init__()
        self.crop: Crop | None = None
        self.setFixedSize(SIDE, SIDE)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("The region and its surroundings")
        self.setToolTip("The current region and its surroundings, as in the image layer")

    def show_crop(self, crop: Crop | None) -> None:
        """Show another crop, or nothing."""
        self.crop = crop
        self.update()

    def paintEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Draw pixels and border."""
        if self.crop is None:
            return
        pixels = self.crop.pixels
        height, width = pixels.shape[:2]
        scale = min(self.width() / width, self.height() / height)
        place = QRectF(0, 0, width * scale, height * scale)
        place.moveCenter(QRectF(self.rect()).center())
        picture = QImage(pixels.data, width, height, 3 * width, QImage.Format.Format_RGB888)
        painter = QPainter(self)
        painter.setRenderHints(
            QPainter.RenderHint.SmoothPixmapTransform | QPainter.RenderHint.Antialiasing
        )
        painter.drawImage(place, picture)
        painter.setClipRect(place)
        size, origin = (place.height(), place.width()), (place.top(), place.left())
        ends = (self.crop.border * size + origin).tolist()
        lines = [QLineF(x0, y0, x1, y1) for (y0, x0), (y1, x1) in ends]
        for tone, thickness in _TONES:
            pen = QPen(QColor(tone), thickness)
            pen.setCapStyle(Qt.PenCapStyle.SquareCap)
            painter.setPen(pen)
            painter.drawLines(lines)
        painter.end()


class SuggestionButton(QPushButton):
    """Shows one label that a key accepts; empty and disabled without one."""

    def __init__(self) -> None:
        super().__init__()
        self.label, self._score, self._key = QElidingLabel(), QLabel(), QLabel()
        self._chip = QLabel()
        self._key.setStyleSheet("font-weight: bold;")
        self._key.setMinimumWidth(2 * self.fontMetrics().horizontalAdvance("0"))
        row = QHBoxLayout(self)
        row.setContentsMargins(4, 0, 4, 0)
        row.setSpacing(4)
        row.addWidget(self._key)
        row.addWidget(self._chip)
        row.addWidget(self.label, 1)
        row.addWidget(self._score)
        for part in (self._key, self._chip, self.label, self._score):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(self.fontMetrics().height() + 8)
        self.show_choice(None)

    def show_choice(self, choice: Choice | None) -> None:
        """Show a label; without one the button is empty."""
        self.setEnabled(choice is not None)
        if choice is None:
            for part in (self._key, self.label, self._score):
                part.setText("")
            self._chip.setPixmap(QPixmap())
            self.setAccessibleName("No suggestion")
            self.setToolTip("")
            return
        label, suggestion = choice.label, choice.suggestion
        self._key.setText(choice.key)
        chip = QPixmap(_CHIP, _CHIP)
        chip.fill(QColor(choice.color or "transparent"))
        self._chip.setPixmap(chip)
        font = self.label.font()
        if font.bold() != choice.best:
            font.setBold(choice.best)
            self.label.setFont(font)
        score = "" if suggestion is None else f"{100 * suggestion.score:.0f} %"
        self.label.setText(label)
        self._score.setText(score)
        self.setAccessibleName(f"Accept {label}, {score}" if score else f"Accept {label}")
        tip = f"Accept '{label}'" + (f" ({choice.key})" if choice.key else "")
        if suggestion is not None:
            tip += f": {score} by {suggestion.by}"
            if suggestion.similarity == suggestion.similarity:  # no NaN
                tip += f"; similarity {suggestion.similarity:.2f}"
        self.setToolTip(tip)
