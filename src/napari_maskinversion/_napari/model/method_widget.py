"""Choice of the method that embeds regions, and of its explainability map."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QComboBox, QSpinBox, QWidget

from ...engine.explain.registry import MAPS
from ...engine.methods.registry import Method, MethodSpec, list_methods
from ..widgets.dialogs import ask_file
from ..widgets.sections import Note, button, combo_box, form, stack

NOTHING = "nothing"
_TIP: Final = (
    "The explainability map matched with a region. LeGrad is the paper's choice; the others are "
    "for comparison."
)


class MethodWidget(QWidget):
    """A method, a second one to average with, and a checkpoint if needed."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._specs = list_methods()
        self._weights: Path | None = None
        self.first = _combo(self._specs, "How regions are embedded")
        self.second = _combo(self._specs, "Similarities of two methods, averaged", NOTHING)
        tip = "Checkpoint of AlphaCLIP for this model's architecture"
        self.file = button("", tip, self._choose_file)
        self.about = Note()
        rows = form([("Method", self.first), ("Average with", self.second), self.file, self.about])
        inner = rows.layout()
        if inner is not None:
            inner.setContentsMargins(0, 0, 0, 0)
        stack(self, rows)
        self.first.setAccessibleName("Method")
        self.second.setAccessibleName("Average with another method")
        self.first.currentIndexChanged.connect(lambda _: self._changed())
        self.second.currentIndexChanged.connect(lambda _: self._changed())
        self._describe()

    @property
    def method(self) -> Method:
        """The chosen method; it may still need weights."""
        name = self._specs[max(self.first.currentIndex(), 0)].name
        second_index = self.second.currentIndex() - 1  # the first entry is for none
        if second_index >= 0 and self._specs[second_index].name != name:
            name += f"+{self._specs[second_index].name}"
        return Method(name, self._weights)

    def choose(self, name: str) -> None:
        """Choose a method by name, or two joined by ``+``."""
        names = [spec.name for spec in self._specs]
        first, _, second = Method(name).name.partition("+")
        self.first.setCurrentIndex(names.index(first))
        self.second.setCurrentIndex(1 + names.index(second) if second else 0)

    def show_method(self, method: Method) -> None:
        """Choose a method with its checkpoint, or with none."""
        self._weights = method.weights  # before the method, whose change is told with them
        self.choose(method.name)
        self._describe()

    def use_weights(self, file: Path) -> None:
        """Set the checkpoint of a method that needs one."""
        self._weights = file
        self._changed()

    def _choose_file(self) -> None:
        kinds = "Checkpoints (*.safetensors *.pt *.pth *.bin)"
        if file := ask_file(self, "Checkpoint of AlphaCLIP", kinds):
            self.use_weights(file)

    def _changed(self) -> None:
        self._describe()
        self.changed.emit()

    def _describe(self) -> None:
        method = self.method
        self.file.setVisible(any(part.weights for part in method.parts))
        self.file.setText(
            "Needs weights: choose a file ..."
            if self._weights is None
            else f"Weights: {self._weights.name}"
        )
        parts = [method.about, f"Cost: {method.cost}.", method.lacks]
        self.about.setText(" ".join(part for part in parts if part))


def _combo(specs: list[MethodSpec], tip: str, none: str = "") -> QComboBox:
    box = combo_box([none] if none else (), tip=tip)
    for spec in specs:
        box.addItem(spec.title)
        about = f"{spec.about} {Method(spec.name).cost}."
        box.setItemData(box.count() - 1, about, Qt.ItemDataRole.ToolTipRole)
    return box


class ExplainerWidget(QWidget):
    """A combo box of maps, and a line about the chosen one."""

    changed = Signal()

    def __init__(self, layers: QSpinBox) -> None:
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
