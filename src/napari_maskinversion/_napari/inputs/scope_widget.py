"""Choice of regions, planes, channels and windows."""

from __future__ import annotations

import re
from typing import Any, Final

from qtpy.QtCore import Signal
from qtpy.QtWidgets import (
    QCheckBox,
    QLineEdit,
    QSpinBox,
    QWidget,
)

from ...base.errors import InputError
from ...images.windows import MODES, WindowConfig
from ...results.settings import RunSettings, fields_of
from ..layers.layers import is_shapes
from ..layers.pictures import Channels
from ..layers.tasks import Planes
from ..widgets.form import SettingsForm
from ..widgets.sections import combo_box, form, stack

_PLANES: Final[tuple[tuple[str, Planes], ...]] = (
    ("the plane shown", "shown"),
    ("all, each label where largest", "largest"),
    ("all, plane by plane", "each"),
)
_CHANNELS: Final[tuple[tuple[str, Channels], ...]] = (
    ("this layer", "layer"),
    ("as displayed", "displayed"),
)


class ScopeWidget(QWidget):
    """Choices that most runs leave at their defaults."""

    changed = Signal()
    outline_toggled = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.windows = combo_box(
            MODES.values(),
            tip="What the model sees with a region. Automatic: the whole image, or a window around "
            "regions that are too small for that.",
        )
        self.side = QSpinBox()
        self.side.setRange(8, 100_000)
        self.side.setValue(512)
        self.side.setSuffix(" px")
        self.side.setToolTip("Side of a window, in pixels of the image")
        # The setting "window" is edited by two widgets: mode and side.
        self.form = SettingsForm(
            [one for one in fields_of("window") if one.key != "window"], parent=self
        )
        self.outline = QCheckBox("Outline the selected region's window")
        self.live = QCheckBox("Show heatmaps while they form")
        self.live.setToolTip("Of the first region being inverted, until you pick a row")
        self.shown = (self.outline, self.live)  # for the page of the display
        self.channels = combo_box(
            [text for text, _ in _CHANNELS],
            tip="This layer: the image alone, grey if it has one channel. As displayed: all "
            "visible image layers with their colours, as on the canvas.",
        )
        self.planes = combo_box(
            [text for text, _ in _PLANES],
            tip="All planes: only for a Labels layer with more than two dimensions",
        )
        self.use = combo_box(
            ["all regions", "selected only"],
            tip="Selected: the numbers below, or the selection in the layer",
        )
        self.ids = QLineEdit()
        self.ids.setAccessibleName("Numbers of the regions")
        self.ids.setToolTip("Label values or shapes' rows, such as 3, 7-9")
        self.merge = QCheckBox("Merge them into one query")
        self.merge.setToolTip("Invert the selected regions together, for one answer")
        self._layer: Any = None
        stack(
            self,
            form(
                [
                    ("Use", self.use),
                    ("Numbers", self.ids),
                    self.merge,
                    ("Planes", self.planes),
                    ("Pixels", self.channels),
                    ("Look at", self.windows),
                    ("Side", self.side),
                    *self.form.rows().values(),
                ]
            ),
        )
        for combo in (self.windows, self.channels, self.planes, self.use):
            combo.currentIndexChanged.connect(lambda _: self._show_state())
        self.side.valueChanged.connect(lambda _: self.changed.emit())
        self.form.changed.connect(self.changed.emit)
        self.ids.textChanged.connect(lambda _: self.changed.emit())
        self.merge.toggled.connect(lambda _: self.changed.emit())
        self.outline.toggled.connect(self.outline_toggled.emit)
        self._show_state()

    def set_regions(self, layer: Any, displayed: int = 2) -> None:
        """Enable the choices that a regions layer allows."""
        self._layer = layer
        stack = layer is not None and not is_shapes(layer) and layer.ndim > displayed
        self.planes.setEnabled(stack)
        if not stack:
            self.planes.setCurrentIndex(0)
        self._show_state()

    def pick(self, ids: list[int]) -> None:
        """Choose regions by number."""
        self.ids.setText(", ".join(str(value) for value in ids))
        self.use.setCurrentIndex(1)

    def window(self) -> WindowConfig:
        """Return the settings of the windows."""
        mode = list(MODES)[self.windows.currentIndex()]
        window = str(self.side.value()) if mode == "fixed" else mode
        return RunSettings(window=window).changed(self.form.values()).window

    def channels_chosen(self) -> Channels:
        """Return which layers the model sees."""
        return _CHANNELS[self.channels.currentIndex()][1]

    def planes_chosen(self) -> Planes:
        """Return the chosen planes."""
        return _PLANES[self.planes.currentIndex()][1]

    def only(self) -> frozenset[int] | None:
        """Return the ids of the chosen regions; None for all.

        Raises
        ------
        InputError
            If nothing is selected, or the numbers are invalid.
        """
        if self.use.currentIndex() == 0:
            return None
        typed = self.ids.text().strip()
        if typed:
            return parse_ids(typed)
        if is_shapes(self._layer):
            rows = frozenset(int(row) for row in self._layer.selected_data)
            if not rows:
                raise InputError(
                    "No shape is selected; select some with the arrow tool, or choose 'all "
                    "regions' under Use."
                )
            return rows
        label = int(getattr(self._layer, "selected_label", 0))
        if label == 0:
            raise InputError(
                "The selected label is 0, the background; select another one, or type numbers."
            )
        return frozenset({label})

    def merged(self) -> bool:
        """Whether the chosen regions are merged."""
        return self.use.currentIndex() == 1 and self.merge.isChecked()

    def _show_state(self) -> None:
        mode, limited = self.windows.currentIndex(), self.use.currentIndex() == 1
        self.side.setEnabled(mode == 2)
        for key in self.form.values():
            self.form[key].setEnabled(mode != 1)
        self.ids.setEnabled(limited)
        self.merge.setEnabled(limited)
        what = "shapes selected" if is_shapes(self._layer) else "label picked"
        self.ids.setPlaceholderText(f"the {what} in the layer")
        self.changed.emit()


def parse_ids(text: str) -> frozenset[int]:
    """Read ``"3, 7-9"``.

    Raises
    ------
    InputError
        For anything else.
    """
    ids: set[int] = set()
    for part in re.split(r"[,;\s]+", re.sub(r"(?<=\d)\s*-\s*(?=\d)", "-", text.strip())):
        match = re.fullmatch(r"(-?\d+)(?:-(\d+))?", part)
        if match is None:
            raise InputError(f"Regions are chosen by number, such as 3, 7-9; got '{part}'.")
        first = int(match[1])
        last = int(match[2]) if match[2] else first
        if last < first or last - first > 100_000:
            raise InputError(f"'{part}' is not a range of regions; the lower number comes first.")
        ids.update(range(first, last + 1))
    return frozenset(ids)
