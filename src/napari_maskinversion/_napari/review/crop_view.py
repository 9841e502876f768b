"""Shows a region cut out of its image, with its border."""

from __future__ import annotations

from typing import Any, Final

from qtpy.QtCore import QLineF, QRectF, Qt
from qtpy.QtGui import QColor, QImage, QPainter, QPen
from qtpy.QtWidgets import QSizePolicy, QWidget

from ..layers.overlays import Crop

SIDE: Final = 120
_TONES: Final = (("black", 3.5), ("white", 1.5))


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
