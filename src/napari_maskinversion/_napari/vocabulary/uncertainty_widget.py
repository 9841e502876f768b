"""When an answer is marked as unsure."""

from __future__ import annotations

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QDoubleSpinBox, QVBoxLayout, QWidget

from ...language.ranking.uncertainty import UncertaintyConfig
from ..widgets.sections import form, note


class UncertaintyWidget(QWidget):
    """The limits of `UncertaintyConfig`; at its lowest a limit is off."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        usual = UncertaintyConfig()
        self.tokens = _limit(
            "Small region",
            "A region that covers fewer tokens (patches) of what the model sees is unsure.",
            (1000.0, 0.5, usual.tokens),
            " tokens",
        )
        self.overlap = _limit(
            "Low overlap",
            "A region whose heatmap overlaps its mask less (IoU) is unsure.",
            (1.0, 0.05, usual.overlap),
            " IoU",
        )
        self.odds = _limit(
            "Low margin",
            "A region is unsure unless its best label is so many times as probable as the second.",
            (1000.0, 0.1, usual.odds),
            " x second",
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        about = note("An answer below a limit is marked, in the table shown too.")
        rows = [
            ("Small region, below", self.tokens),
            ("Low overlap, below", self.overlap),
            ("Low margin, below", self.odds),
        ]
        layout.addWidget(form([about, *rows]))
        for _, box in rows:
            box.valueChanged.connect(lambda _: self.changed.emit())

    def config(self) -> UncertaintyConfig:
        """Return the limits."""
        return UncertaintyConfig(
            tokens=self.tokens.value(), overlap=self.overlap.value(), odds=self.odds.value()
        )


def _limit(name: str, tip: str, numbers: tuple[float, float, float], suffix: str) -> QDoubleSpinBox:
    most, step, value = numbers
    box = QDoubleSpinBox()
    box.setRange(0, most)
    box.setSingleStep(step)
    box.setValue(value)
    box.setSuffix(suffix)
    box.setSpecialValueText("off")
    box.setToolTip(f"{tip} 0 turns the mark off.")
    box.setAccessibleName(f"Unsure: {name.lower()}")
    return box
