"""What the panel does beside its sections: keys, preferences, memory, being opened at a section."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qtpy.QtCore import QObject, QTimer
from qtpy.QtWidgets import QScrollArea, QWidget

from ...base.preferences import FILE, LAST, Preferences, load, save
from ..widgets.sections import Section
from ..workers.notify import inform, refuse
from .header import PanelHeader
from .keys_dialog import KeysDialog
from .napari_page import NapariPage
from .preferences_dialog import PreferencesDialog
from .state_keeper import StateKeeper

if TYPE_CHECKING:
    from .widget import MaskInversionWidget

# A scroll area needs its new heights before it can bring something into sight.
_LAID_OUT = 60


class PanelController(QObject):
    """Belongs to one panel.

    Parameters
    ----------
    panel : MaskInversionWidget

    Attributes
    ----------
    part : PanelHeader
    """

    def __init__(self, panel: MaskInversionWidget) -> None:
        super().__init__(panel)
        self._panel = panel
        self.keys: KeysDialog | None = None
        self.dialog: PreferencesDialog | None = None
        self.page = NapariPage(self._changed_on_page)
        self.preferences = load()
        self.part = PanelHeader(panel)
        self.part.keys.clicked.connect(self.show_keys)
        self.part.preferences.clicked.connect(self.show_preferences)
        self._memory: StateKeeper | None = None
        self._revealed: Section | None = None
        self._scroll = QTimer(self)
        self._scroll.setSingleShot(True)
        self._scroll.setInterval(_LAID_OUT)
        self._scroll.timeout.connect(self._scroll_there)

    # -- life ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Take preferences and memory, once the panel is built."""
        panel = self._panel
        problem = FILE.read()[1]
        if problem:
            inform(problem)
        self._connect_page()
        self.preferences = load()
        self._memory = StateKeeper(panel, panel.model, panel.vocabulary, panel.results.columns)
        self._memory.start()
        if self.preferences.live:
            panel.live.part.switch.setChecked(True)

    def resume(self) -> None:
        """Go on where the panel is docked again."""
        if self._memory is not None:
            self._connect_page()

    def stop(self) -> None:
        """Write down what is remembered and let go of napari's page."""
        self.page.disconnect()
        if self._memory is not None:
            self._memory.stop()

    # -- keys ---------------------------------------------------------------------------------

    def show_keys(self) -> None:
        """Show the list of keys, beside the work."""
        if self.keys is None:
            self.keys = KeysDialog(self._panel)
        self.keys.show()
        self.keys.raise_()

    # -- preferences --------------------------------------------------------------------------

    def show_preferences(self) -> None:
        """Open the window for preferences."""
        dialog = self.dialog = PreferencesDialog(load(), self._panel)
        dialog.accepted.connect(self._take_dialog)
        dialog.finished.connect(self._forget_dialog)
        dialog.cleared.connect(self._panel.model.fill)
        dialog.forget_asked.connect(self.forget)
        dialog.open()

    def forget(self) -> None:
        """Let the panel return to how it first started."""
        if self._memory is not None:
            self._memory.forget()
            self._panel.input.changed.emit()  # labels that a layer brings come back

    def _take_dialog(self) -> None:
        if self.dialog is None:
            return
        chosen = self.dialog.chosen
        try:
            if self.page.here:
                self.page.show(chosen)
            else:
                save(chosen)
        except OSError as error:
            refuse(f"The preferences could not be saved ({error.strerror}).")
            return
        self._apply(chosen)

    def _forget_dialog(self) -> None:
        if self.dialog is not None:
            self.dialog.deleteLater()
            self.dialog = None

    def _connect_page(self) -> None:
        try:
            self.page.connect()
        except OSError as error:
            inform(f"Preferences cannot be saved ({error.strerror}).")

    def _changed_on_page(self) -> None:
        self._apply(load())

    def _apply(self, new: Preferences) -> None:
        """Let what has changed take effect."""
        old, self.preferences, panel = self.preferences, new, self._panel
        if new.model not in (old.model, LAST):
            panel.model.choose(new.model)
        if new.device not in (old.device, LAST):
            panel.model.choose_device(new.device)
        if new.cache_folder != old.cache_folder:
            panel.model.fill()
        if new.heatmap != old.heatmap:
            panel.canvas.heatmap.recolor()
        if new.palette != old.palette:
            panel.review.recolor()

    # -- sections -----------------------------------------------------------------------------

    def reveal(self, title: str) -> Section | None:
        """Open the section whose title ends so, with those it lies in, and bring it into sight."""
        found = [s for s in self._panel.findChildren(Section) if s.title.endswith(title)]
        if not found:
            return None
        section = found[0]
        around: QWidget | None = section
        while around is not None and around is not self._panel:
            if isinstance(around, Section):
                around.open()
            around = around.parentWidget()
        section.toggleButton().setFocus()
        self._revealed = section
        self._scroll.start()
        return section

    def _scroll_there(self) -> None:
        section, self._revealed = self._revealed, None
        around: QWidget | None = section
        while around is not None and not isinstance(around, QScrollArea):
            around = around.parentWidget()
        if section is not None and around is not None:
            top = section.mapTo(around.widget(), section.rect().topLeft()).y()
            around.verticalScrollBar().setValue(top)
