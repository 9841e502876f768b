"""The head of the panel: what is worked on, and with which model. It never scrolls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from qtpy.QtCore import Qt
from qtpy.QtGui import QShortcut
from qtpy.QtWidgets import QGridLayout, QPushButton, QWidget

from ...engine.models.specs import DEMO
from ..session import Bindings, Session
from ..widgets.keys import PANEL, named, shortcut
from ..widgets.sections import Note, line, stack

ABOUT_DEMO: Final = (
    "Demo model: drawings, land from above, blood cells, nuclei. It knows nothing of photographs."
)


class PanelHeader(QWidget):
    """Image, regions, model, and the ways to settings and help.

    Parameters
    ----------
    panel : QWidget
        Where the key of the list of keys works.
    inputs : QWidget
        Choices of image and regions.
    session : Session
    """

    def __init__(self, panel: QWidget, inputs: QWidget, session: Session) -> None:
        super().__init__()
        self._session, self._bindings = session, Bindings()
        self._colors: dict[str, str] = {}
        key = named(PANEL)["help"]
        self.keys = _button("?", "Keys and documentation", f"All keys, and the docs ({key.shown})")
        self.shortcut = QShortcut(shortcut(PANEL, "help"), panel)
        self.shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.shortcut.activated.connect(self.keys.click)
        self.settings = _button(
            "\N{GEAR}", "Settings", "Settings: model, method, regions, words, display, storage"
        )
        self.model = Note(name="Model")
        self.change = _button("Change...", "Change the model", "Choose another model and device")
        self.chip = line(self.model, self.change)
        self.chip.setObjectName("chip")
        layout = self.chip.layout()
        if layout is not None:
            layout.setContentsMargins(6, 2, 2, 2)
        top = QWidget()
        grid = QGridLayout(top)
        grid.setContentsMargins(0, 0, 4, 0)
        grid.setSpacing(2)
        grid.addWidget(inputs, 0, 0, 2, 1)
        above = Qt.AlignmentFlag.AlignTop
        grid.addWidget(self.settings, 0, 1, above)
        grid.addWidget(self.keys, 1, 1, above)
        grid.setColumnStretch(0, 1)
        stack(self, top, self.chip, margins=(2, 0, 2, 4), spacing=2)
        self.show_model()

    def follow(self) -> None:
        """Follow the session."""
        self._bindings.connect(self._session.events.settings, self.show_model)
        self.show_model()

    def stop(self) -> None:
        """Stop following the session."""
        self._bindings.release()

    def set_colors(self, colors: Mapping[str, str]) -> None:
        """Follow the theme: "amber" behind the demo model's line, "on amber" for its text."""
        self._colors = dict(colors)
        self.show_model()

    def show_model(self, *_: Any) -> None:
        """Name the model; say what the demo knows."""
        settings = self._session.settings
        demo = settings.model == DEMO
        about = ABOUT_DEMO if demo else f"Model: {settings.model}, device: {settings.device}"
        self.model.setText(about)
        back, text = (self._colors.get(name, "") for name in ("amber", "on amber"))
        self.chip.setStyleSheet(
            f"QWidget#chip {{ background: {back}; border-radius: 3px; }}"
            f"QWidget#chip QLabel {{ background: transparent; color: {text}; }}"
            if demo and back
            else ""
        )


def _button(text: str, name: str, tip: str) -> QPushButton:
    button = QPushButton(text)
    button.setAccessibleName(name)
    button.setToolTip(tip)
    if len(text) == 1:
        button.setFixedWidth(28)
    return button
