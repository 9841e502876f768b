"""Keys, preferences, last state and settings of the panel."""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import QObject, Signal

from ...base.preferences import FILE, LAST, Preferences, load
from ...images.known_images import INSTEAD
from ...results.settings import RunSettings
from ..session import Bindings, session_of
from ..widgets.sections import form
from ..workers.notify import inform, refuse
from .doctor_dialog import DoctorDialog
from .header import PanelHeader
from .keys_dialog import KeysDialog
from .napari_page import NapariPage
from .preferences_pages import PreferencesPages
from .settings_dialog import SettingsDialog
from .state_keeper import StateKeeper
from .topics import settings_pages


class PanelController(QObject):
    """Controls what concerns the whole panel."""

    heatmap_changed = Signal()
    palette_changed = Signal()
    forgotten = Signal()

    def __init__(self, panel: Any) -> None:
        super().__init__(panel)
        self._panel, self._model = panel, panel.model
        self.keys: KeysDialog | None = None
        self.doctor: DoctorDialog | None = None
        self._session, self._bindings = session_of(panel.viewer), Bindings()
        self.page = NapariPage()
        self.preferences = load()
        self.part = PanelHeader(panel, panel.input, self._session)
        self.part.keys.clicked.connect(self.show_keys)
        self.part.settings.clicked.connect(lambda _=False: self.show_settings())
        self.part.change.clicked.connect(lambda _=False: self.show_settings("Model"))
        self.part.photographs.clicked.connect(lambda _=False: panel.download.choose(INSTEAD))
        self.pages = PreferencesPages(self.preferences, panel)
        self.pages.changed.connect(self._save)
        self.pages.cleared.connect(panel.model.fill)
        self.pages.forget_asked.connect(self.forget)
        display = form([*self.pages.display, *panel.input.scope.shown, panel.exports.features])
        pages = {**settings_pages(panel), "Display": display, "Storage": self.pages.storage}
        self.settings = SettingsDialog(pages, panel)
        self._state = StateKeeper(panel)
        self._started = False

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Read preferences and the last state, once the panel is built."""
        problem = FILE.read()[1]
        if problem:
            inform(problem)
        self._connect_page()
        self.preferences = load()
        self.pages.show_preferences(self.preferences)
        self._state.start()
        self._started = True
        self._follow()

    def resume(self) -> None:
        """Follow napari's page again after the panel is docked again."""
        if self._started:
            self._connect_page()
            self._follow()
            self._state.follow()

    def _follow(self) -> None:
        self.part.follow()
        self.page.changed.connect(self._read_again, unique=True)
        self._bindings.answer(self._session, "take settings", self._take_settings)

    def keep(self) -> None:
        """Write the last state, since the window closes."""
        if self._started:
            self._state.keep()

    def stop(self) -> None:
        """Write the last state and stop following napari's page."""
        self._bindings.release()
        self.pages.stop()
        self.part.stop()
        self.page.disconnect()
        self._state.stop()

    # -- keys ---------------------------------------------------------------------------------

    def show_keys(self) -> None:
        """Show the list of keys in a window that stays open."""
        if self.keys is None:
            self.keys = KeysDialog(self._panel)
            self.keys.check.clicked.connect(lambda _=False: self.show_doctor())
        self.keys.show()
        self.keys.raise_()

    def show_doctor(self) -> None:
        """Check the installation, and show what is wrong."""
        if self.doctor is None:
            self.doctor = DoctorDialog(self._panel)
        self.doctor.bring()

    # -- preferences --------------------------------------------------------------------------

    def forget(self) -> None:
        """Return the panel to its first start."""
        self._state.forget()
        self.forgotten.emit()

    def _save(self, preferences: Preferences) -> None:
        try:
            self.page.show(preferences)
        except OSError as error:
            refuse(f"The preferences could not be saved ({error.strerror}).")
            return
        self._apply(preferences)

    def _connect_page(self) -> None:
        try:
            self.page.connect()
        except OSError as error:
            inform(f"Preferences cannot be saved ({error.strerror}).")

    def _read_again(self) -> None:
        self._apply(load())

    def _apply(self, new: Preferences) -> None:
        """Apply changed preferences."""
        old, self.preferences = self.preferences, new
        self.pages.show_preferences(new)
        if new.model not in (old.model, LAST):
            self._state.choose_model(new.model)
        if new.device not in (old.device, LAST):
            self._model.choose_device(new.device)
        if new.cache_folder != old.cache_folder:
            self._model.fill()
        if new.heatmap != old.heatmap:
            self.heatmap_changed.emit()
        if new.palette != old.palette:
            self.palette_changed.emit()

    def _take_settings(self, settings: RunSettings) -> None:
        """Take the settings of a project; the device stays."""
        session = self._session
        session.settings = settings.changed({"device": session.settings.device})
        self._state.show_settings(session.settings)

    # -- places -------------------------------------------------------------------------------

    def show_settings(self, page: str = "") -> None:
        """Open the settings, at a page if one is named."""
        self.settings.bring(page)
