"""Controls for segmenting everything in an image."""

from __future__ import annotations

from qtpy.QtWidgets import QDoubleSpinBox, QSizePolicy, QSpinBox, QWidget

from ...regions.sam.automatic_config import AutomaticConfig
from ..widgets.sections import form, stack


class EverythingWidget(QWidget):
    """Edits an `AutomaticConfig`; starts with the defaults."""

    def __init__(self) -> None:
        super().__init__()
        first = AutomaticConfig()
        self.points, self.area = QSpinBox(), QSpinBox()
        self.score, self.stability, self.overlap = (QDoubleSpinBox() for _ in range(3))
        self.area.setSuffix(" px")
        for box, most, value, tip in (
            (
                self.points,
                256,
                first.points_per_side,
                "Grid points along each side. More points find smaller objects; the time grows "
                "with their square.",
            ),
            (self.score, 1, first.score, "Drop masks with a lower predicted IoU."),
            (
                self.stability,
                1,
                first.stability,
                "Drop masks with a less certain outline: the IoU of the mask at a higher and a "
                "lower threshold.",
            ),
            (
                self.overlap,
                1,
                first.overlap,
                "Keep the better one of two masks whose boxes overlap more.",
            ),
            (self.area, 1_000_000_000, first.min_area, "Drop masks with fewer pixels."),
        ):
            box.setRange(int(box is self.points), most)
            box.setSingleStep(0.01 if isinstance(box, QDoubleSpinBox) else 1)
            box.setValue(value)
            box.setToolTip(f"{tip} Default: {value:g}")
            box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        rows = [
            ("Points a side", self.points),
            ("Score from", self.score),
            ("Stability from", self.stability),
            ("Overlap to", self.overlap),
            ("Area from", self.area),
        ]
        stack(self, form(rows), margins=(12, 0, 0, 0))

    def config(self) -> AutomaticConfig:
        """Return the chosen settings."""
        return AutomaticConfig(
            points_per_side=self.points.value(),
            score=self.score.value(),
            stability=self.stability.value(),
            overlap=self.overlap.value(),
            min_area=self.area.value(),
        )
