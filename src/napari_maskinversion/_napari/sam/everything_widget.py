"""Controls for finding everything in an image: the grid of points, and what is kept."""

from __future__ import annotations

from qtpy.QtWidgets import QDoubleSpinBox, QSizePolicy, QSpinBox, QVBoxLayout, QWidget

from ...regions.sam.automatic_config import AutomaticConfig
from ..widgets.sections import form


class EverythingWidget(QWidget):
    """How `AutomaticConfig` is chosen; its defaults at first."""

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
                "Points of the grid along each side: more find smaller things, and take longer "
                f"(their square). Usual: {first.points_per_side}",
            ),
            (
                self.score,
                "Least score",
                "Masks that SAM is less sure of are dropped (the IoU that it expects). "
                f"Usual: {first.score:g}",
            ),
            (
                self.stability,
                "Least stability",
                "Masks whose outline is less certain are dropped: the overlap of the mask drawn "
                f"tighter and wider. Usual: {first.stability:g}",
            ),
            (
                self.overlap,
                "Most overlap",
                "Of two masks whose boxes overlap more, the better one is kept. "
                f"Usual: {first.overlap:g}",
            ),
            (self.area, "Least area", "Masks of fewer pixels are dropped. Usual: none"),
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
        """Give what is chosen."""
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
