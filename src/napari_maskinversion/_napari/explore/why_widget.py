"""Explains why the selected region got its label: the controls."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final, cast

from qtpy.QtCore import QSignalBlocker, QStringListModel, Qt, Signal
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QCheckBox, QFormLayout, QLabel, QSlider, QWidget

from ..layers.heatmap import LESS_COLOR, MORE_COLOR
from ..widgets.curve import LossCurve
from ..widgets.sections import Note, combo_box, form, line, stack

REGION, LABEL, AGAINST, STEPS = "region", "label", "against", "steps"
_MODES: Final = (
    (REGION, "the region's heatmap"),
    (LABEL, "where a word is"),
    (AGAINST, "one word against another"),
    (STEPS, "the steps of the optimisation"),
)


class WhyWidget(QWidget):
    """What the heatmap layer shows for the selected region, and what its numbers mean.

    Signals
    -------
    changed
        Another choice of what to show.
    step_changed : int
    """

    changed = Signal()
    step_changed = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.mode = combo_box(tip="What the heatmap layer shows for the selected region")
        for key, title in _MODES:
            self.mode.addItem(title, key)
        self.label = combo_box(tip="The word whose heatmap is shown")
        self.other = combo_box(tip="The word to compare it with")
        self._names = QStringListModel(self)
        for box in (self.label, self.other):
            box.setModel(self._names)
        self.whole = QCheckBox("On the whole image")
        self.whole.setToolTip(
            "The run saw this region in a window; look for the word on the whole image instead"
        )
        self.whole.setAccessibleName("Where a word is on the whole image")
        self._windowed = False
        self.legend = Note()
        self.legend.setTextFormat(Qt.TextFormat.RichText)
        self.step = QSlider(Qt.Orientation.Horizontal)
        self.step.setToolTip("Optimisation step; 0 is the embedding of the whole image")
        self.step.setAccessibleName("Step of the optimisation")
        self.step.setPageStep(5)
        self.step_value = QLabel("0")
        self.curve = LossCurve()
        self.line = Note(name="Status")
        self.numbers = Note(name="The selected region's numbers in words")
        self._build()
        self.pinned = False  # the user has chosen the labels
        self.mode.activated.connect(lambda _: self.changed.emit())
        self.mode.currentIndexChanged.connect(lambda _: self._arrange())
        for box in (self.label, self.other):
            box.activated.connect(lambda _: self._chosen())
        self.whole.toggled.connect(lambda _: self.changed.emit())
        self.step.valueChanged.connect(self._step_moved)
        self.curve.picked.connect(self.step.setValue)
        self._arrange()

    def _build(self) -> None:
        self._slider = line(QLabel("Step"), self.step, self.step_value)
        self.step_value.setMinimumWidth(24)
        self.step_value.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._rows = {
            self.mode: form([("Show", self.mode)]),
            self.label: form([("Word", self.label)]),
            self.other: form([("Against", self.other)]),
        }
        for field, row_of in self._rows.items():
            # Separate forms can be hidden in every Qt; the titles stay aligned.
            title = cast("QFormLayout", row_of.layout()).labelForField(field)
            title.setMinimumWidth(self.fontMetrics().horizontalAdvance("Against") * 5 // 4)
        rest = [self.whole, self.legend, self._slider, self.curve, self.line, self.numbers]
        stack(self, *self._rows.values(), form(rest), margins=(0, 0, 0, 4))
        self.say("")

    @property
    def shown(self) -> str:
        """What to show: "region", "label", "against" or "steps"."""
        return str(self.mode.currentData())

    @property
    def labels(self) -> tuple[str, ...]:
        """The chosen labels, as many as needed."""
        boxes = {LABEL: (self.label,), AGAINST: (self.label, self.other)}
        return tuple(box.currentText() for box in boxes.get(self.shown, ()) if box.count())

    @property
    def on_whole(self) -> bool:
        """Whether to explain on the whole image although the run used a window."""
        return self._windowed and self.shown in (LABEL, AGAINST) and self.whole.isChecked()

    def show_windowed(self, windowed: bool) -> None:
        """Offer the whole image for a region that the run saw in a window."""
        self._windowed = windowed
        self.whole.setVisible(windowed and self.shown in (LABEL, AGAINST))

    def offer(self, names: Sequence[str], *, best: Sequence[str]) -> None:
        """List labels; keep the two chosen ones, or choose the best two."""
        before = [box.currentText() for box in (self.label, self.other)]
        with QSignalBlocker(self.label), QSignalBlocker(self.other):
            if self._names.stringList() != list(names):
                self._names.setStringList(list(names))
            places = {name: place for place, name in enumerate(names)}
            for box, own, first in zip((self.label, self.other), before, best, strict=False):
                box.setCurrentIndex(places.get(first, places.get(own, 0)))

    def show_legend(self, more: str, less: str) -> None:
        """Show which colour means which label."""
        self.legend.setText(
            " &nbsp; ".join(
                f'<span style="color:{color}">\N{BLACK SQUARE}</span> more {escape(name)}'
                for color, name in ((MORE_COLOR, more), (LESS_COLOR, less))
            )
        )
        self.legend.setToolTip("Nothing is drawn where both heatmaps agree or are 0")
        self.legend.show()

    def show_course(self, losses: Sequence[float], step: int) -> None:
        """Show the loss curve and a slider, at one step."""
        with QSignalBlocker(self.step):
            self.step.setRange(0, max(len(losses) - 1, 0))
            self.step.setValue(step)
        self.step_value.setText(str(self.step.value()))
        self.curve.show_losses(losses)
        self.curve.show_step(self.step.value())
        for widget in (self._slider, self.curve):
            widget.setVisible(len(losses) > 0)

    def say(self, text: str) -> None:
        """Show what is being done, or why it cannot be done."""
        self.line.say(text)

    def explain(self, sentences: Sequence[str]) -> None:
        """Show the numbers in words."""
        self.numbers.say("\n".join(sentences))

    def set_colors(self, line: str, text: str) -> None:
        """Follow the theme."""
        self.curve.line_color, self.curve.text_color = QColor(line), QColor(text)
        self.curve.update()

    def _step_moved(self, step: int) -> None:
        self.step_value.setText(str(step))
        self.curve.show_step(step)
        self.step_changed.emit(step)

    def _chosen(self) -> None:
        self.pinned = True
        self.changed.emit()

    def _arrange(self) -> None:
        """Show the controls of the chosen mode."""
        self._rows[self.label].setVisible(self.shown in (LABEL, AGAINST))
        self._rows[self.other].setVisible(self.shown == AGAINST)
        self.show_windowed(self._windowed)
        self.legend.setVisible(False)
        for widget in (self._slider, self.curve):
            widget.setVisible(False)
