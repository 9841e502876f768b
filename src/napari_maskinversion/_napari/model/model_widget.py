"""Part 2: which model, where it runs, and how regions are inverted."""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QSlider,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from ...base import progress_words as words
from ...base.lazy_torch import torch_if_loaded
from ...engine.models.registry import list_models, model_state
from ...engine.models.specs import ModelSpec
from ...engine.settings import InversionConfig
from ..widgets.sections import Section, form, note
from .explainer_widget import ExplainerWidget
from .method_widget import MethodWidget

# The slider's ends and steps: alpha 0 looks at the region alone, about 5 keeps its context; beyond
# 10 the paper's accuracy falls again.
_ALPHA_STEPS, _ALPHA_MAX = 40, 10.0
DEFAULT_CHUNK = 16


class ModelWidget(QWidget):
    """Model, device and settings of the inversion."""

    changed = Signal()  # another model, or settings that a run's time depends on
    fetch_requested = Signal(str)
    fetch_cancelled = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._specs: list[ModelSpec] = []
        self.model = QComboBox()
        self.model.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.about = note()
        self.fetch = QPushButton("Fetch")
        self.fetch.setToolTip("Download this model's weights once; they stay on this machine.")
        self.cancel_fetch = QPushButton("Cancel")
        self.fetch_bar = QProgressBar()
        self.device = QComboBox()
        self.device.setToolTip("auto: CUDA, else Apple's MPS, else the CPU")
        self.device.addItems(["auto", "cpu", "cuda", "mps"])
        self.alpha = QSlider(Qt.Orientation.Horizontal)
        self.alpha.setRange(0, _ALPHA_STEPS)
        self.alpha.setToolTip(
            "How much of the surroundings counts (alpha). Local: the region alone. Context: the "
            "embedding stays close to the whole image's."
        )
        self.alpha_value = QLabel("0")
        self.method = MethodWidget()
        self.steps = _whole(1, 200, 10, "Updates per region")
        self.rate = QDoubleSpinBox()
        self.rate.setDecimals(3)
        self.rate.setRange(0.001, 10)
        self.rate.setSingleStep(0.05)
        self.rate.setValue(0.1)
        self.layers = _whole(1, 48, 1, "How many of the last layers are explained")
        self.explainer = ExplainerWidget(self.layers)
        self.fast = QCheckBox("Fast")
        self.fast.setToolTip(
            "Estimate LeGrad's map where the estimate agrees with the exact one. Saves time with "
            "large models."
        )
        self.chunk = _whole(1, 512, DEFAULT_CHUNK, "Regions inverted at a time")
        self.keep_aspect = QCheckBox("Keep the image's proportions")
        self.keep_aspect.setChecked(True)
        self._build()
        self.fill()
        self.model.currentIndexChanged.connect(lambda _: self._describe())
        self.model.currentIndexChanged.connect(lambda _: self.changed.emit())
        self.device.currentIndexChanged.connect(lambda _: self.changed.emit())
        self.method.changed.connect(self._method_changed)
        for box in (self.steps, self.layers, self.chunk):
            box.valueChanged.connect(lambda _: self.changed.emit())
        self.explainer.changed.connect(self.changed.emit)
        self.fast.toggled.connect(lambda _: self.changed.emit())
        self.alpha.valueChanged.connect(lambda _: self.alpha_value.setText(f"{self._alpha():g}"))
        self.fetch.clicked.connect(lambda: self.fetch_requested.emit(self.spec.name))
        self.cancel_fetch.clicked.connect(self.fetch_cancelled.emit)

    def _build(self) -> None:
        slider = QWidget()
        row = QHBoxLayout(slider)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        for item in (QLabel("local"), self.alpha, QLabel("context"), self.alpha_value):
            row.addWidget(item)
        self.alpha_value.setMinimumWidth(32)
        self.alpha_value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        fetching = QWidget()
        line = QHBoxLayout(fetching)
        line.setContentsMargins(0, 0, 0, 0)
        for item in (self.fetch, self.fetch_bar, self.cancel_fetch):
            line.addWidget(item)
        advanced = Section(
            "Advanced",
            form(
                [
                    self.method,
                    ("Steps", self.steps),
                    ("Learning rate", self.rate),
                    ("Layers", self.layers),
                    ("Map", self.explainer),
                    self.fast,
                    ("Chunk size", self.chunk),
                    self.keep_aspect,
                ]
            ),
            opened=False,
        )
        for widget, name in (
            (self.alpha, "Local to context, alpha"),
            (self.fetch_bar, "Fetch progress"),
            (self.cancel_fetch, "Cancel fetching"),
        ):
            widget.setAccessibleName(name)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        rows: list[Any] = [("Model", self.model), self.about, fetching]
        layout.addWidget(form([*rows, ("Device", self.device), slider]))
        layout.addWidget(advanced)
        self.show_fetch(None)

    @property
    def spec(self) -> ModelSpec:
        """The chosen model."""
        return self._specs[max(self.model.currentIndex(), 0)]

    def needs_fetch(self) -> bool:
        """Whether the chosen model's weights are not on this machine."""
        return model_state(self.spec) == "to fetch"

    def choose(self, name: str) -> None:
        """Choose a model by name."""
        names = [spec.name for spec in self._specs]
        if name in names:
            self.model.setCurrentIndex(names.index(name))

    def choose_device(self, name: str) -> None:
        """Choose a device by name, if it is offered; the first GPU has two names."""
        for known in (name, name.removesuffix(":0")):
            if self.device.findText(known) >= 0:
                self.device.setCurrentText(known)
                return

    def set_alpha(self, alpha: float) -> None:
        """Choose how much of the surroundings counts."""
        self.alpha.setValue(round(alpha * _ALPHA_STEPS / _ALPHA_MAX))

    def fill(self) -> None:
        """List the models, each with a badge that says where its weights are."""
        chosen = self.spec.name if self._specs else None
        self._specs = list_models()
        self.model.blockSignals(True)
        self.model.clear()
        for spec in self._specs:
            self.model.addItem(f"{spec.name}  [{badge(spec)}]")
            self.model.setItemData(self.model.count() - 1, spec.title, Qt.ItemDataRole.ToolTipRole)
        self.model.blockSignals(False)
        if chosen:
            self.choose(chosen)
        self._describe()

    def fill_devices(self) -> None:
        """Offer the devices that are there, once torch is loaded and can be asked."""
        if torch_if_loaded() is None or self.device.count() == 0:
            return
        from ...engine.compute.devices import devices

        chosen = self.device.currentText()
        names = ["auto", *devices()]
        self.device.clear()
        self.device.addItems(names)
        self.device.setCurrentText(chosen if chosen in names else "auto")

    def show_fetch(self, progress: tuple[int, int] | None) -> None:
        """Show a download's progress in bytes; None when there is none."""
        running = progress is not None
        self.fetch.setVisible(not running and bool(self._specs) and self.needs_fetch())
        self.fetch_bar.setVisible(running)
        self.cancel_fetch.setVisible(running)
        self.model.setEnabled(not running)
        if progress is not None:
            done, total = progress
            self.fetch_bar.setRange(0, 1000 if total else 0)
            self.fetch_bar.setValue(int(1000 * done / total) if total else 0)
            self.fetch_bar.setFormat(words.megabytes(done, total))

    def config(self) -> InversionConfig:
        """Return the settings of the inversion."""
        return InversionConfig(
            steps=self.steps.value(),
            learning_rate=self.rate.value(),
            alpha=self._alpha(),
            layers=self.layers.value(),
            explainer=self.explainer.name,
            fast=self.fast.isChecked(),
        )

    def _method_changed(self) -> None:
        inverts = self.method.method.uses_inversion
        for widget in (self.alpha, self.steps, self.rate, self.explainer, self.fast):
            widget.setEnabled(inverts)
        self.layers.setEnabled(inverts and not self.explainer.last_only)
        self.changed.emit()

    def _alpha(self) -> float:
        return self.alpha.value() * _ALPHA_MAX / _ALPHA_STEPS

    def _describe(self) -> None:
        spec = self.spec
        self.about.setText(
            f"{spec.size_text}, {spec.license}, works at {spec.working_resolution} px"
        )
        self.fetch.setText(f"Fetch {spec.size_text}")
        self.model.setToolTip(f"{spec.title}. Trained at {spec.native_resolution} px.")
        self.show_fetch(None)


def badge(spec: ModelSpec) -> str:
    """Say where a model's weights are."""
    state = model_state(spec)
    return f"{spec.size_text} to fetch" if state == "to fetch" else state


def _whole(low: int, high: int, value: int, tip: str) -> QSpinBox:
    box = QSpinBox()
    box.setRange(low, high)
    box.setValue(value)
    box.setToolTip(tip)
    return box
