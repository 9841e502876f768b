"""Small controls made in one call: number boxes, and pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtGui import QImage, QPixmap
from qtpy.QtWidgets import QDoubleSpinBox, QSpinBox


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
