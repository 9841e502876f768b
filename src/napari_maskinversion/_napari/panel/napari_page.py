"""Our page in napari's Preferences window."""

from __future__ import annotations

from typing import Any, Final

from psygnal import Signal

from ...base.preferences import Preferences, load, save

PLUGIN: Final = "napari-maskinversion"
GROUP: Final = "panel"
_NAMES: Final = tuple(Preferences.model_fields)


class NapariPage:
    """Copies napari's page into our preferences file, which everything else reads.

    The page wins: at the start of the panel, and whenever the user changes it. `show` writes both.
    A value the page cannot mean yet (a folder that is still being typed) is ignored.
    """

    changed = Signal()  # The user has changed something on the page

    def __init__(self) -> None:
        self._page: Any = None
        self._writing = False

    @property
    def available(self) -> bool:
        """Whether napari shows the page."""
        return self._page is not None

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

    def _on_change(self, event: Any = None) -> None:
        if not self._writing and self._copy():
            self.changed.emit()

    def _copy(self) -> bool:
        """Write the page's values to our file; return whether anything was new."""
        before = load()
        after = before.updated({name: getattr(self._page, name) for name in _NAMES})
        if after != before:
            save(after)
        return after != before


def _page() -> Any:
    from napari.settings import get_plugin_settings

    try:
        return getattr(get_plugin_settings(PLUGIN), GROUP)
    except (KeyError, AttributeError):  # the plugin is not installed, or disabled
        return None
