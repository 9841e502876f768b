"""Choice of regions, planes, channels and windows."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QWidget

from ...app.layer_input.input_pictures import Channels
from ...app.layer_input.layer_facts import is_shapes
from ...app.layer_input.run_input import Planes
from ...app.session import Scope, Session
from ...images.windows import MODES
from ...results.settings import RunSettings, fields_of
from ..widgets.controls import number_box
from ..widgets.form import SettingsForm
from ..widgets.sections import check_box, combo_box, form, stack, text_field

if TYPE_CHECKING:
    from ...app.layer_input.viewer_protocols import RegionsLayer


_PLANES: Final[dict[str, Planes]] = {
    "the plane shown": "shown",
    "all, each label where largest": "largest",
    "all, plane by plane": "each",
}
_CHANNELS: Final[dict[str, Channels]] = {"this layer": "layer", "as displayed": "displayed"}


class ScopeWidget(QWidget):
    """Choices that most runs leave at their defaults."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self.windows = combo_box(
            MODES.values(),
            tip="What the model sees with a region. Automatic: the whole image, or a window around "
            "regions that are too small for that.",
        )
        tip = "Side of a window, in pixels of the image"
        self.side = number_box(8, 100_000, 512, tip, suffix=" px")
        # The setting "window" is edited by two widgets: mode and side.
        self.form = SettingsForm(
            [
                setting
                for setting in fields_of("window", "planes")
                if setting.key in ("window.context", "measure")
            ],
            parent=self,
        )
        self.outline = check_box("Outline the selected region's window", "")
        tip = "Of the first region being inverted, until you pick a row"
        self.live = check_box("Show heatmaps while they form", tip)
        self.shown = (self.outline, self.live)  # for the page of the display
        self.channels = combo_box(
            _CHANNELS,
            tip="This layer: the image alone, grey if it has one channel. As displayed: all "
            "visible image layers with their colours, as on the canvas.",
        )
        self.planes = combo_box(
            _PLANES,
            tip="All planes: only for a Labels layer with more than two dimensions",
        )
        self.use = combo_box(
            ["all regions", "selected only"],
            tip="Selected: the numbers below, or the selection in the layer",
        )
        tip = "Label values or shapes' rows, such as 3, 7-9"
        self.ids = text_field("", tip, name="Numbers of the regions")
        tip = "Invert the selected regions together, for one answer"
        self.merge = check_box("Merge them into one query", tip)
        self._layer: RegionsLayer | None = None
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
        signals = (self.side.valueChanged, self.form.changed, self.ids.textChanged)
        for signal in (*signals, self.merge.toggled):
            signal.connect(lambda *_: self._tell())
        # As the boxes are; the session may be older.
        session.run.outlined = session.run.forming = False
        self.outline.toggled.connect(partial(setattr, session.run, "outlined"))
        self.live.toggled.connect(partial(setattr, session.run, "forming"))
        self._show_state()

    def set_regions(self, layer: RegionsLayer | None) -> None:
        """Enable the choices that a regions layer allows."""
        self._layer = layer
        stack = layer is not None and not is_shapes(layer) and layer.ndim > 2
        self.planes.setEnabled(stack)
        if not stack:
            self.planes.setCurrentIndex(0)
        self._show_state()

    def show_scope(self, scope: Scope) -> None:
        """Show which regions and pixels are chosen."""
        if scope == self._scope():
            return
        parts = (self.use, self.ids, self.merge, self.planes, self.channels)
        with ExitStack() as blocked:
            for part in parts:
                blocked.enter_context(QSignalBlocker(part))
            self.use.setCurrentIndex(int(scope.limited))
            self.ids.setText(scope.ids)
            self.merge.setChecked(scope.merge)
            self.planes.setCurrentIndex(self.planes.findData(scope.planes))
            self.choose_channels(scope.channels)
        self._show_state()

    def show_settings(self, settings: RunSettings) -> None:
        """Show how regions get their windows."""
        window = settings.window
        with QSignalBlocker(self.side), QSignalBlocker(self.windows):
            if window.mode == "fixed":
                self.side.setValue(window.side)
            self.windows.setCurrentIndex(list(MODES).index(window.mode))
        self.form.show_settings(settings)
        self._show_state()

    def choose_channels(self, name: str) -> None:
        """Choose which pixels are used, by the name in `Scope`; by default the layer's."""
        self.channels.setCurrentIndex(max(self.channels.findData(name), 0))

    def _tell(self) -> None:
        mode = list(MODES)[self.windows.currentIndex()]
        window = str(self.side.value()) if mode == "fixed" else mode
        self._session.run.change_settings({"window": window, **self.form.values()})
        self._session.run.scope = self._scope()

    def _scope(self) -> Scope:
        return Scope(
            planes=self.planes.currentData(),
            channels=self.channels.currentData(),
            limited=self.use.currentIndex() == 1,
            ids=self.ids.text(),
            merge=self.merge.isChecked(),
        )

    def _show_state(self) -> None:
        mode, limited = self.windows.currentIndex(), self.use.currentIndex() == 1
        self.side.setEnabled(mode == 2)
        self.form["window.context"].setEnabled(mode != 1)
        self.ids.setEnabled(limited)
        self.merge.setEnabled(limited)
        picked = "shapes selected" if is_shapes(self._layer) else "label picked"
        self.ids.setPlaceholderText(f"the {picked} in the layer")
        self._tell()
