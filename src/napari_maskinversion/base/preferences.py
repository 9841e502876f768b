"""What the user prefers: one file, for the panel, napari's preferences and the command line."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final

from .config_file import ConfigFile
from .errors import ConfigError

LAST: Final = "last used"
DEVICES: Final = ("auto", "cpu", "cuda", "mps")
HEATMAPS: Final = ("turbo", "viridis", "magma", "inferno", "cividis", "hot", "gray")
DISTINCT, SAFE = "distinct", "colour-blind safe"
PALETTES: Final = (DISTINCT, SAFE)
FILE: Final = ConfigFile("preferences.json", 1)

_CHOICES: Final = {
    "device": (LAST, *DEVICES),
    "heatmap": HEATMAPS,
    "palette": PALETTES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What the user prefers.

    Parameters
    ----------
    model, device : str
        What the panel starts with; ``"last used"`` for that of the time before.
    cache_folder : str
        Full path of the one folder for what is fetched or cached; "" for the system's usual place.
    offline : bool
        Nothing is fetched.
    live : bool
        Live mode is on from the start.
    heatmap : str
        Colours of heatmaps.
    palette : str
        Colours of labels that have none of their own.

    Raises
    ------
    ConfigError
        If a value cannot work.
    """

    model: str = LAST
    device: str = LAST
    cache_folder: str = ""
    offline: bool = False
    live: bool = False
    heatmap: str = HEATMAPS[0]
    palette: str = DISTINCT

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {value!r}.")
        for name in ("offline", "live"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} must be true or false; got {getattr(self, name)!r}.")
        folder = self.cache_folder
        if not isinstance(folder, str) or (folder and not Path(folder).expanduser().is_absolute()):
            raise ConfigError(f"The cache folder must be a full path, or empty; got {folder!r}.")


NAMES: Final = tuple(field.name for field in fields(Preferences))
USUAL: Final = Preferences()

_lock = threading.Lock()
_known: tuple[Any, Preferences] | None = None


def choices(name: str) -> tuple[str, ...]:
    """Return what may be chosen; nothing where anything may."""
    return tuple(_CHOICES.get(name, ()))


def load() -> Preferences:
    """Return the preferences as they are now; what cannot be used is as usual.

    The file is read again only when it has changed.
    """
    global _known
    path = FILE.path
    try:
        state = path.stat()
        key = (path, state.st_mtime_ns, state.st_size)
    except OSError:
        return USUAL
    with _lock:
        if _known is None or _known[0] != key:
            _known = (key, from_values(FILE.read()[0]))
        return _known[1]


def save(preferences: Preferences, shared: Mapping[str, Any] | None = None) -> None:
    """Keep preferences.

    Parameters
    ----------
    preferences : Preferences
    shared : mapping, optional
        What napari's page of preferences shows, to tell later who has changed what; as before
        unless given.

    Raises
    ------
    OSError
        If they cannot be written; those before stay.
    """
    global _known
    page = dict(last_shared() if shared is None else shared)
    FILE.write({**asdict(preferences), "napari": page})
    with _lock:
        _known = None


def last_shared() -> dict[str, Any]:
    """Return what napari's page showed when preferences were last exchanged with it."""
    shared = FILE.read()[0].get("napari")
    return asdict(USUAL) | (shared if isinstance(shared, dict) else {})


def from_values(values: Mapping[str, Any]) -> Preferences:
    """Make preferences of values from a file, one by one; those that cannot work are left out."""
    good: dict[str, Any] = {}
    for name in NAMES:
        if name in values:
            try:
                Preferences(**{name: values[name]})
            except (ConfigError, TypeError):
                continue
            good[name] = values[name]
    return Preferences(**good)
