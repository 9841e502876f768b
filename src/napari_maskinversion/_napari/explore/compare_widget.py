"""Compare two results for one region: the controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from qtpy.QtCore import Qt, Signal
from qtpy.QtGui import QImage, QPixmap
from qtpy.QtWidgets import (
    QComboBox,
    QGridLayout,
    QLabel,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QWidget,
)

from ...engine.methods.registry import Method
from ...images.windows import MODES
from ...results.settings import Setting, fields_of
from ..widgets.form import SettingsForm
from ..widgets.sections import Note, combo_box, form, line, stack

if TYPE_CHECKING:
    from ...pipeline.comparing import Answer

_SIDE: Final = 150  # pixels of a thumbnail


class CompareWidget(QWidget):
    """The setting to change, and both results.

    Signals
    -------
    edited
        Another choice.
    """

    edited = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.what = combo_box(tip="The setting to change")
        self.model = combo_box(tip="The other model, of those on this machine")
        self.method = combo_box(tip="The other method")
        self.window = combo_box(tip="What the model sees with the region")
        for mode in ("auto", "whole"):
            self.window.addItem(MODES[mode], mode)
        for box in (self.model, self.method, self.window):
            box.currentIndexChanged.connect(lambda _: self.edited.emit())
        settings = {setting.key: setting for setting in fields_of()}
        # Settings that only an inversion has, by name.
        self.inversion: dict[str, Setting] = {
            setting.name: setting
            for setting in fields_of("inversion")
            if setting.extra.get("ui", True)
        }
        self.form = SettingsForm(self.inversion.values(), parent=self)
        self.form.changed.connect(self.edited.emit)
        self._titles = {name: setting.title for name, setting in self.inversion.items()} | {
            "window": settings["window"].title,
            "model": settings["model"].title,
            "method": settings["method.name"].title,
        }
        self._fields: dict[str, QWidget] = {
            name: self.form[setting.key] for name, setting in self.inversion.items()
        } | {"window": self.window, "model": self.model, "method": self.method}
        self.stack = QStackedWidget()
        self.compare = QPushButton("Compare")
        self.compare.setToolTip("Compute the selected region with and without this change")
        self.cancel = QPushButton("Cancel")
        self.cancel.setToolTip("Stop comparing")
        self.estimate = Note(name="Estimate for the comparison")
        self.line = Note(name="Status")
        self.verdict = Note(name="How well both results agree")
        self.sides = (_Side(), _Side())
        self._build()
        self.show_running(False)
        self.estimate.hide()
        self.clear()

    def _build(self) -> None:
        for field in self._fields.values():
            self.stack.addWidget(field)
        self.what.currentIndexChanged.connect(lambda _: self.edited.emit())
        self.stack.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.what.currentIndexChanged.connect(
            lambda _: self.stack.setCurrentWidget(self._fields.get(self.changed, self.window))
        )
        buttons = line(self.compare, self.cancel, shares=(2, 1))
        self._both = QWidget()
        grid = QGridLayout(self._both)
        grid.setContentsMargins(6, 2, 2, 2)
        grid.setHorizontalSpacing(8)
        for column, side in enumerate(self.sides):
            grid.setColumnStretch(column, 1)
            for place, item in enumerate(side.items):
                grid.addWidget(item, place, column, Qt.AlignmentFlag.AlignTop)
        rows = [("Change", self.what), ("to", self.stack), self.estimate, buttons, self.line]
        stack(self, form(rows), self._both, form([self.verdict]), margins=(0, 0, 0, 4))

    def offer(
        self, models: Sequence[str], methods: Mapping[str, Method], *, inverts: bool = True
    ) -> None:
        """Offer the settings that can be changed."""
        for box, choices in (
            (self.model, dict.fromkeys(models)),
            (self.method, dict(methods)),
        ):
            before = box.currentText()
            box.clear()
            for title, data in choices.items():
                box.addItem(title, data)
            box.setCurrentIndex(max(box.findText(before), 0))
        absent = {name for name, box in (("model", models), ("method", methods)) if not box}
        absent |= set() if inverts else self.inversion.keys()
        keys = [key for key in self._titles if key not in absent]
        if [self.what.itemData(i) for i in range(self.what.count())] == keys:
            return
        before = self.changed
        self.what.clear()
        for key in keys:
            self.what.addItem(self._titles[key], key)
        places = (self.what.findData(name) for name in (before, "alpha", "window"))
        self.what.setCurrentIndex(next(place for place in places if place >= 0))

    @property
    def changed(self) -> str:
        """The setting to change."""
        return str(self.what.currentData())

    @property
    def value(self) -> Any:
        """Its other value."""
        if self.changed in self.inversion:
            return self.form.values()[self.inversion[self.changed].key]
        field = self._fields[self.changed]
        assert isinstance(field, QComboBox)
        data = field.currentData()
        return field.currentText() if data is None else data

    def title_of(self, value: Any) -> str:
        """Return a value of the setting as text."""
        if isinstance(value, bool):
            return "on" if value else "off"
        if self.changed == "window":
            return MODES[value]
        if isinstance(value, Method):
            return value.title
        return f"{value:g}" if isinstance(value, float) else str(value)

    def show_running(self, running: bool) -> None:
        """Enable Compare or Cancel."""
        self.compare.setEnabled(not running)
        self.cancel.setEnabled(running)

    def say(self, text: str) -> None:
        """Show what is being done, or why it cannot be done."""
        self.line.say(text)

    def clear(self) -> None:
        """Hide the results."""
        self._both.hide()
        self.verdict.say("")
        self.say("")

    def show_answers(self, titles: Sequence[str], answers: Sequence[Answer], verdict: str) -> None:
        """Show both results side by side, and how well they agree."""
        for side, title, answer in zip(self.sides, titles, answers, strict=True):
            side.show(title, answer)
        self._both.show()
        self.verdict.say(verdict)


class _Side:
    """One result: title, thumbnail, labels, numbers."""

    def __init__(self) -> None:
        self.title, self.picture, self.labels, self.numbers = Note(), QLabel(), Note(), Note()
        self.title.setStyleSheet("font-weight: bold;")
        self.picture.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.items = (self.title, self.picture, self.labels, self.numbers)

    def show(self, title: str, answer: Answer) -> None:
        result = answer.result
        self.title.setText(title)
        self.picture.setPixmap(thumbnail(answer))
        self.picture.setAccessibleName(f"Heatmap with {title}")
        self.picture.setToolTip("The region's heatmap over what the model saw")
        ranking = result.ranking
        rows = (
            []
            if ranking is None
            else list(zip(ranking.labels[:5], ranking.similarities[:5].tolist(), strict=True))
        )
        self.labels.setText("\n".join(f"{value:.2f} {name}" for name, value in rows))
        margin = "" if ranking is None or len(ranking.labels) < 2 else f"{ranking.margin:.3f}"
        overlap = f"IoU {result.iou:.2f}" if result.has_heatmap else "no heatmap"
        lines = [overlap, margin and f"margin {margin}", f"{answer.seconds:.2f} s"]
        if result.flagged:
            lines.append(result.status)
        self.numbers.setToolTip("Overlap of heatmap and region, margin, and time")
        self.numbers.setText("\n".join(filter(None, lines)))


def thumbnail(answer: Answer) -> QPixmap:
    """Draw a heatmap over what the model saw."""
    from napari.utils.colormaps import ensure_colormap

    heat = ensure_colormap("turbo").map(answer.heatmap.ravel())[:, :3]
    heat = heat.reshape(*answer.heatmap.shape, 3) * 255
    strength = (0.7 * np.clip(1.6 * answer.heatmap, 0, 1))[..., None]
    mixed = (1 - strength) * answer.picture + strength * heat
    pixels = np.ascontiguousarray(mixed.round().astype(np.uint8))
    height, width = pixels.shape[:2]
    data = pixels.tobytes()  # Qt reads it until the image is drawn
    image = QImage(data, width, height, 3 * width, QImage.Format.Format_RGB888)
    return QPixmap.fromImage(
        image.scaled(
            _SIDE,
            _SIDE,
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.SmoothTransformation,
        )
    )
