"""Choice of the explainability map, among the model's advanced settings."""

from __future__ import annotations

from typing import Any, Final

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QWidget

from ...engine.explain.registry import MAPS
from ..widgets.sections import Note, combo_box, stack

_TIP: Final = (
    "The explainability map matched with a region. LeGrad is the paper's choice; the others are "
    "for comparison."
)


class ExplainerWidget(QWidget):
    """A combo box of maps, and a line about the chosen one."""

    changed = Signal()

    def __init__(self, layers: Any) -> None:
        super().__init__()
        self._layers = layers
        self.combo = combo_box(name="Explainability map", tip=_TIP)
        for place, spec in enumerate(MAPS.values()):
            self.combo.addItem(spec.title, spec.name)
            self.combo.setItemData(place, spec.about, Qt.ItemDataRole.ToolTipRole)
        self.about = Note()
        stack(self, self.combo, self.about, spacing=2)
        self.combo.currentIndexChanged.connect(lambda _: self._show())
        self._show()

    @property
    def name(self) -> str:
        """The chosen map."""
        return str(self.combo.currentData())

    @property
    def last_only(self) -> bool:
        """Whether the chosen map looks at the last layer only."""
        return MAPS[self.name].last_layer_only

    def choose(self, name: str) -> None:
        """Choose a map by name."""
        self.combo.setCurrentIndex(self.combo.findData(name))

    def _show(self) -> None:
        self.about.setText(MAPS[self.name].about)
        if self.last_only:
            self._layers.setValue(1)
        self._layers.setEnabled(not self.last_only)
        self.changed.emit()
