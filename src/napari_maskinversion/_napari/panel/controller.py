"""Keys, preferences (also on napari's page), last state and settings of the panel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import psygnal
from qtpy.QtCore import QObject, Signal

from ...app.session import Topic
from ...base.config_parts import save
from ...base.preferences import LAST, Preferences, load
from ...images.known_images import INSTEAD
from ...results.settings import RunSettings
from ..widgets.sections import form
from ..workers.notify import inform, refuse
from .header import PanelHeader
from .help_dialogs import DoctorDialog, KeysDialog
from .panel_state import StateKeeper, read_state
from .storage_page import StoragePage
from .topics import SettingsDialog, settings_pages

if TYPE_CHECKING:
    from napari.utils.events import EventedModel

    from .panel_parts import PanelParts


PLUGIN: Final = "napari-maskinversion"
GROUP: Final = "panel"
_NAMES: Final = tuple(Preferences.model_fields)


class PanelController(Topic, QObject):
    """Controls what concerns the whole panel."""

    heatmap_changed = Signal()
    palette_changed = Signal()
    forgotten = Signal()

    def __init__(self, panel: PanelParts) -> None:
        super().__init__(panel)
        self._panel, self._model = panel, panel.model
        self.keys: KeysDialog | None = None
        self.doctor: DoctorDialog | None = None
        self._session = panel.session
        self.page = NapariPage()
        self.preferences = load()
        self.part = PanelHeader(panel, panel.input, self._session)
        self.part.keys.clicked.connect(self.show_keys)
        self.part.photographs.clicked.connect(lambda _=False: panel.download.choose(INSTEAD))
        self.pages = StoragePage(self.preferences, panel.session.jobs)
        self.pages.changed.connect(self._save)
        self.pages.cleared.connect(panel.model.fill)
        self.pages.forget_asked.connect(self.forget)
        display = form([*self.pages.display, *panel.input.scope.shown, panel.exports.features])
        pages = {**settings_pages(panel), "Display": display, "Storage": self.pages}
        self.settings = SettingsDialog(pages, panel)
        self.part.settings.clicked.connect(lambda _=False: self.settings.bring())
        self.part.change.clicked.connect(lambda _=False: self.settings.bring("Model"))
        self._state = StateKeeper(panel)
        self._started = False

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Read preferences and the last state, once the panel is built."""
        _, problem = read_state()
        if problem:
            inform(problem)
        self._connect_page()
        self.preferences = load()
        self.pages.show_preferences(self.preferences)
        self._state.start()
        self._started = True
        self.follow()

    def resume(self) -> None:
        """Follow napari's page again after the panel is docked again."""
        if self._started:
            self._connect_page()
            self.follow()
            self._state.follow()

    def bind(self) -> None:
        """Follow napari's page and the session."""
        self.part.follow()
        self.page.changed.connect(self._read_again, unique=True)
        self.after(self._take_settings, self._session.run.take_settings)

    def keep(self) -> None:
        """Write the last state, since the window closes."""
        if self._started:
            self._state.keep()

    def stop(self) -> None:
        """Write the last state and stop following napari's page."""
        super().stop()
        self.part.stop()
        self.page.disconnect()
        self._state.stop()

    # -- keys ---------------------------------------------------------------------------------

    def show_keys(self) -> None:
        """Show the list of keys in a window that stays open."""
        if self.keys is None:
            self.keys = KeysDialog(self._panel)
            self.keys.check.clicked.connect(lambda _=False: self.show_doctor())
        self.keys.bring()

    def show_doctor(self) -> None:
        """Check the installation, and show what is wrong."""
        if self.doctor is None:
            self.doctor = DoctorDialog(self._panel, self._session.jobs)
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
        session.run.settings = settings.changed({"device": session.run.settings.device})
        self._state.show_settings(session.run.settings)


class NapariPage:
    """Our page in napari's Preferences, copied into our file, which everything else reads.

    The page wins: at the start of the panel, and whenever the user changes it. `show` writes both.
    A value the page cannot mean yet (a folder that is still being typed) is ignored.
    """

    changed = psygnal.Signal()  # The user has changed something on the page

    def __init__(self) -> None:
        self._page: EventedModel | None = None
        self._writing = False

    def connect(self) -> None:
        """Copy the page into our file, and follow its changes from now on."""
        page = _page()
        if page is self._page:
            return
        self.disconnect()
        self._page = page
        if page is not None:
            for name in _NAMES:
                getattr(page.events, name).connect(self._on_change)
            self._copy()

    def disconnect(self) -> None:
        """Stop following the page."""
        if self._page is not None:
            for name in _NAMES:
                getattr(self._page.events, name).disconnect(self._on_change)
        self._page = None

    def show(self, preferences: Preferences) -> None:
        """Write preferences to our file, and to the page if there is one."""
        save(preferences)
        if self._page is None:
            return
        self._writing = True
        try:
            for name, value in preferences:
                setattr(self._page, name, value)
        finally:
            self._writing = False

    def _on_change(self, _: object = None) -> None:
        if not self._writing and self._copy():
            self.changed.emit()

    def _copy(self) -> bool:
        """Write the page's values to our file; return whether anything was new."""
        before = load()
        after = before.updated({name: getattr(self._page, name) for name in _NAMES})
        if after != before:
            save(after)
        return after != before


def _page() -> EventedModel | None:
    from napari.settings import get_plugin_settings

    try:
        return getattr(get_plugin_settings(PLUGIN), GROUP)
    except (KeyError, AttributeError):  # the plugin is not installed, or disabled
        return None
