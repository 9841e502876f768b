"""Small controls: number boxes, pictures, and a row that accepts a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import Signal
from qtpy.QtGui import QImage, QPixmap
from qtpy.QtWidgets import QDoubleSpinBox, QLabel, QPushButton, QSpinBox, QWidget

from .sections import button, combo_box, line, refill, stack

_CONFIDENCE: Final = 90  # per cent


def number_box(
    least: float,
    most: float,
    value: float,
    tip: str,
    *,
    step: float = 0,
    suffix: str = "",
    name: str = "",
) -> Any:
    """Make a spin box, of whole numbers if its value is one."""
    box = QSpinBox() if isinstance(value, int) else QDoubleSpinBox()
    box.setRange(least, most)
    box.setSingleStep(step or 1)
    box.setValue(value)
    box.setSuffix(suffix)
    box.setToolTip(tip)
    box.setAccessibleName(name)
    return box


def pixmap_of(pixels: npt.NDArray[np.uint8]) -> QPixmap:
    """Return colours (h, w, 3) as a picture, which holds a copy."""
    height, width, _ = pixels.shape
    rgb = QImage.Format.Format_RGB888
    return QPixmap.fromImage(QImage(pixels.tobytes(), width, height, 3 * width, rgb))


class AcceptAll(QWidget):
    """A word, the least confidence, and the button; its tips say where it is accepted."""

    changed = Signal()  # Another word, or another confidence

    def __init__(self, where: str, word_tip: str, tip: str, *buttons: QPushButton) -> None:
        super().__init__()
        self.word = combo_box(name=f"Word to accept {where}", tip=word_tip)
        about, name = "with at least this confidence", f"Lowest confidence {where}"
        self.limit = number_box(0, 100, _CONFIDENCE, about, suffix=" %", name=name)
        self.accept = button("Accept", tip, name=f"Accept {where}")
        above, controls = line(QLabel("All"), self.word, shares=(0, 1)), (self.limit, self.accept)
        below = line(QLabel("from"), *controls, *buttons, shares=(0, 1, 1, *(1 for _ in buttons)))
        stack(self, above, below, spacing=4)
        self.word.currentIndexChanged.connect(lambda _: self.changed.emit())
        self.limit.valueChanged.connect(lambda _: self.changed.emit())

    @property
    def chosen(self) -> tuple[str, float]:
        """The word, and the least confidence (0..1)."""
        return self.word.currentText(), self.limit.value() / 100

    def offer(self, words: Sequence[str]) -> None:
        """Offer words; the chosen one stays."""
        refill(self.word, words)
