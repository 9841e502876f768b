"""What a reviewer looks at: the region cut out of its image, and a button for each suggestion."""

from __future__ import annotations

from typing import Final

from qtpy.QtCore import Qt
from qtpy.QtGui import QColor, QPixmap
from qtpy.QtWidgets import QHBoxLayout, QLabel, QPushButton, QSizePolicy
from superqt import QElidingLabel

from ...app.review.review_state import Choice
from ...library.thumbnails import Pixels
from ..layers.overlays import CROP_SIDE
from ..widgets.controls import pixmap_of

_CHIP: Final = 10  # pixels


class CropView(QLabel):
    """The region in question, large enough to recognise; empty without one."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(CROP_SIDE, CROP_SIDE)
        self.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.setAccessibleName("The region and its surroundings")
        self.setToolTip("The current region and its surroundings, as in the image layer")

    def show_crop(self, pixels: Pixels | None) -> None:
        """Show other pixels (h, w, 3), or nothing."""
        self.setPixmap(QPixmap() if pixels is None else pixmap_of(pixels))


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
