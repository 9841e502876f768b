"""Choice of the explainability map, among the model's advanced settings."""

from __future__ import annotations

from typing import Any, Final

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QComboBox, QSizePolicy, QVBoxLayout, QWidget

from ...engine.settings import ABOUT_EXPLAINERS, EXPLAINERS, ExplainerName
from ..widgets.sections import note

_TIP: Final = (
    "The explainability map that is matched with a region. LeGrad is the paper's; the others are "
    "there to be compared with it."
)


class ExplainerWidget(QWidget):
    """A combo box of maps with a line about the chosen one.

    Parameters
    ----------
    layers : QWidget
        The spin box for the number of explained layers; off for maps of the last layer only.
    """

    changed = Signal()

    def __init__(self, layers: Any) -> None:
        super().__init__()
        self._layers = layers
        self.combo = QComboBox()
        self.combo.setAccessibleName("Explainability map")
        self.combo.setToolTip(_TIP)
        self.combo.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        for place, name in enumerate(EXPLAINERS):
            about = ABOUT_EXPLAINERS[name]
            self.combo.addItem(about.partition(": ")[0], name)
            self.combo.setItemData(place, about, Qt.ItemDataRole.ToolTipRole)
        self.about = note()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self.combo)
        layout.addWidget(self.about)
        self.combo.currentIndexChanged.connect(lambda _: self._show())
        self._show()

    @property
    def name(self) -> ExplainerName:
        """Name of the chosen map."""
        return EXPLAINERS[max(self.combo.currentIndex(), 0)]

    @property
    def last_only(self) -> bool:
        """Whether the chosen map explains the last layer only."""
        return self.name.startswith("gradcam")

    def _show(self) -> None:
        about = ABOUT_EXPLAINERS[self.name].partition(": ")[2]
        self.about.setText(about[0].upper() + about[1:] + ".")
        if self.last_only:
            self._layers.setValue(1)
        self._layers.setEnabled(not self.last_only)
        self.changed.emit()
