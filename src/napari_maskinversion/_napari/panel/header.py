"""The head of the panel: what is worked on, and with which model. It never scrolls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from qtpy.QtCore import Qt
from qtpy.QtGui import QShortcut
from qtpy.QtWidgets import QGridLayout, QWidget

from ...app.session import Session, Topic, job_kinds
from ...base.cache_folder import is_offline
from ...engine.models.registry import get_spec, model_state, short_name
from ...engine.models.specs import DEMO
from ...images.known_images import INSTEAD, UNKNOWN, how_to_bring
from ..widgets.keys import PANEL, named, shortcut
from ..widgets.sections import Note, button, line, stack

if TYPE_CHECKING:
    from napari.utils.theme import Theme


ABOUT_DEMO: Final = (
    "Demo model: it knows drawings, aerial land cover, blood cells and nuclei, but no photographs."
)
STILL_DEMO: Final = "The suggestions are still from the demo model."


class PanelHeader(Topic, QWidget):
    """Image, regions, model, and the ways to settings and help."""

    def __init__(self, panel: QWidget, inputs: QWidget, session: Session) -> None:
        super().__init__()
        self._session = session
        self._downloads = session.jobs.of(job_kinds.DOWNLOAD)
        self._colors: dict[str, str] = {}
        key = named(PANEL)["help"]
        tip = f"Help: all keys, the docs, this installation ({key.shown})"
        self.keys = button("?", tip, name="Help")
        self.shortcut = QShortcut(shortcut(PANEL, "help"), panel)
        self.shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self.shortcut.activated.connect(self.keys.click)
        tip = "Settings: model, method, regions, words, display, storage"
        self.settings = button("\N{GEAR}", tip, name="Settings")
        for narrow_button in (self.keys, self.settings):
            narrow_button.setFixedWidth(28)
        self.model = Note(name="Model")
        tip = "Choose another model and device"
        self.change = button("Change...", tip, name="Change the model")
        self.photographs = button("", "", name="Choose a model for photographs")
        self.seen = Note(name="What the model sees")
        self.chip, above = QWidget(), line(self.model, self.change)
        for part in (self.chip, above):  # napari gives each widget a background of its own
            part.setObjectName("chip")
        stack(self.chip, above, self.photographs, margins=(6, 2, 2, 2), spacing=2)
        top = QWidget()
        grid = QGridLayout(top)
        grid.setContentsMargins(0, 2, 4, 0)
        grid.setSpacing(4)
        grid.addWidget(inputs, 0, 0, 3, 1)
        grid.addWidget(self.settings, 0, 1)
        grid.addWidget(self.keys, 1, 1)
        grid.setColumnStretch(0, 1)
        grid.setRowStretch(2, 1)  # a note below the regions moves no button
        stack(self, top, self.seen, self.chip, margins=(2, 0, 2, 4), spacing=2)
        self.show_model()

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        self.after(self.show_model, run.settings, run.image, run.doubt, run.record)
        self.after(self.show_model, self._downloads.began, self._downloads.ended)
        self.after(lambda _: self.seen.say(self._session.run.image_note), run.image, run.looked_at)
        self.show_model()
        self.seen.say(self._session.run.image_note)

    def set_colors(self, colors: Mapping[str, str]) -> None:
        """Follow the theme: "amber" behind the demo model's line, "on amber" for its text."""
        self._colors = dict(colors)
        self.show_model()

    def show_model(self, *_: object) -> None:
        """Name the model; say what the demo knows, and warn of an image that it does not."""
        settings, unknown = self._session.run.settings, self._session.run.image_unknown
        results = self._session.run.results
        demo = settings.model == DEMO
        about = ABOUT_DEMO
        if not demo:
            about = f"Model: {short_name(settings.model)}, device: {settings.device}"
            if results is not None and results.info.model == DEMO:
                demo, about = True, f"{about}. {STILL_DEMO}"
        offer, tip = _instead() if unknown else ("", "")
        self.photographs.setText(offer)
        self.photographs.setToolTip(tip)
        self.photographs.setVisible(bool(offer) and not self._downloads.busy)
        self.model.setText(f"\N{WARNING SIGN} {UNKNOWN}" if unknown else about)
        weight = "bold" if unknown else "normal"
        background, text = self._colors.get("amber", ""), self._colors.get("on amber", "")
        style = ""
        if demo and background:
            style = (
                f"QWidget#chip {{ background: {background}; border-radius: 3px; }}"
                f"QWidget#chip QLabel {{ background: transparent; color: {text};"
                f" font-weight: {weight}; }}"
            )
        self.chip.setStyleSheet(style)


def _instead() -> tuple[str, str]:
    """Return title and tip of the button for photographs."""
    spec = get_spec(INSTEAD)
    title = spec.architecture.replace("-16", "/16")
    if model_state(spec) == "on disk":
        return f"Use {title}", f"Choose {INSTEAD}, which is on this machine"
    if is_offline():
        # Too long for a header at all times: the foot says it once the button is pressed.
        return f"Bring {title} ({spec.size_text})...", how_to_bring()
    tip = f"Download {INSTEAD} once and choose it; the bottom of the panel shows the progress"
    return f"Fetch {title} ({spec.size_text})", tip


def colors_of(theme: Theme) -> dict[str, str]:
    """Return the colours of head and foot by name, readable on the theme's background."""
    dark = sum(theme.background.as_rgb_tuple()[:3]) < 3 * 128
    return {
        "accent": theme.current.as_hex(),
        "text": theme.text.as_hex(),
        "line": theme.primary.as_hex(),
        "error": "#ff9d8f" if dark else "#a80010",
        "warning": "#ffcf66" if dark else "#7a4b00",
        "amber": "#5a4200" if dark else "#ffdf94",
        "on amber": "#ffe2a0" if dark else "#3d2900",
    }
