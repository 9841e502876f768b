"""Our page in napari's own preferences, where this napari has such pages (0.9 and later)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Final

from ...base.errors import ConfigError
from ...base.preferences import NAMES, Preferences, last_shared, load, save

PLUGIN: Final = "napari-maskinversion"
GROUP: Final = "panel"


class NapariPage:
    """Keeps napari's page and our file alike; our file is what everything else reads.

    napari writes its page to a file of its own, also while our panel is closed. So what both showed
    when they last met is kept too: whichever differs from that was changed by the user.

    Parameters
    ----------
    changed : callable
        Called when the user has changed something on the page.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._page: Any = None
        self._busy = False

    @property
    def here(self) -> bool:
        """Whether this napari shows the page."""
        return self._page is not None

    def connect(self) -> None:
        """Take over what was changed on the page meanwhile, and follow it from now on."""
        page = _page()
        if page is self._page:
            return
        self.disconnect()
        self._page = page
        if page is None:
            return
        self._take()
        self.show(load())
        for name in NAMES:
            getattr(page.events, name).connect(self._on_change)

    def disconnect(self) -> None:
        """Follow the page no longer."""
        if self._page is not None:
            for name in NAMES:
                getattr(self._page.events, name).disconnect(self._on_change)
        self._page = None

    def show(self, preferences: Preferences) -> None:
        """Put preferences on the page and keep them as what both show."""
        if self._page is None:
            return
        self._busy = True
        try:
            for name, value in asdict(preferences).items():
                setattr(self._page, name, value)
        finally:
            self._busy = False
        save(preferences, asdict(preferences))

    def _on_change(self, event: Any = None) -> None:
        if not self._busy and self._take():
            self._changed()

    def _take(self) -> bool:
        """Keep what differs on the page from what it showed last; say whether anything does."""
        shown, before = {name: getattr(self._page, name) for name in NAMES}, last_shared()
        new = {name: value for name, value in shown.items() if value != before.get(name)}
        taken = load()
        for name, value in new.items():
            try:
                taken = replace(taken, **{name: value})
            except ConfigError:  # a folder that is still being typed
                shown[name] = before.get(name)
        if new:
            save(taken, shown)
        return bool(new)


def _page() -> Any:
    try:
        from napari.settings import get_plugin_settings
    except ImportError:
        return None
    try:
        return getattr(get_plugin_settings(PLUGIN), GROUP)
    except (KeyError, AttributeError):  # the plugin is not installed, or was switched off
        return None
