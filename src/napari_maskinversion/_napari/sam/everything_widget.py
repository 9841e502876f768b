"""Controls for segmenting everything in an image."""

from __future__ import annotations

from qtpy.QtWidgets import QDoubleSpinBox, QSizePolicy, QSpinBox, QVBoxLayout, QWidget

from ...regions.sam.automatic_config import AutomaticConfig
from ..widgets.sections import form


class EverythingWidget(QWidget):
    """Edits an `AutomaticConfig`; starts with the defaults."""

    def __init__(self) -> None:
        super().__init__()
        first = AutomaticConfig()
        self.points = _whole(1, 256, first.points_per_side)
        self.score, self.stability = _share(first.score), _share(first.stability)
        self.overlap = _share(first.overlap)
        self.area = _whole(0, 1_000_000_000, first.min_area, " px")
        for widget, name, tip in (
            (
                self.points,
                "Points a side",
                "Grid points along each side. More points find smaller objects; the time grows "
                f"with their square. Default: {first.points_per_side}",
            ),
            (
                self.score,
                "Least score",
                f"Drop masks with a lower predicted IoU. Default: {first.score:g}",
            ),
            (
                self.stability,
                "Least stability",
                "Drop masks with a less certain outline: the IoU of the mask at a higher and a "
                f"lower threshold. Default: {first.stability:g}",
            ),
            (
                self.overlap,
                "Most overlap",
                "Keep the better one of two masks whose boxes overlap more. "
                f"Default: {first.overlap:g}",
            ),
            (self.area, "Least area", "Drop masks with fewer pixels. Default: keep all"),
        ):
            widget.setAccessibleName(name)
            widget.setToolTip(tip)
        rows = [
            ("Points a side", self.points),
            ("Score from", self.score),
            ("Stability from", self.stability),
            ("Overlap to", self.overlap),
            ("Area from", self.area),
        ]
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 0, 0, 0)
        layout.addWidget(form(rows))

    def config(self) -> AutomaticConfig:
        """Return the chosen settings."""
        return AutomaticConfig(
            points_per_side=self.points.value(),
            score=self.score.value(),
            stability=self.stability.value(),
            overlap=self.overlap.value(),
            min_area=self.area.value(),
        )


def _whole(low: int, high: int, value: int, suffix: str = "") -> QSpinBox:
    box = QSpinBox()
    box.setRange(low, high)
    box.setValue(value)
    box.setSuffix(suffix)
    box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return box


def _share(value: float) -> QDoubleSpinBox:
    box = QDoubleSpinBox()
    box.setRange(0, 1)
    box.setSingleStep(0.01)
    box.setValue(value)
    box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
    return box
