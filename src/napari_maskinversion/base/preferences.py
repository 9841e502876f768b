"""The preferences, and the file in the user's configuration folder that they begin.

The file is written by `config_parts`: it holds what else is kept for the user, too.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import StrictBool, field_validator

from .errors import ConfigError
from .reading import read_json
from .validation import FrozenModel, setting

VARIABLE: Final = "NAPARI_MASKINVERSION_CONFIG"


def config_folder() -> Path:
    """Return the folder for preferences and for the panel's last state.

    The environment variable ``NAPARI_MASKINVERSION_CONFIG`` overrides the system's folder. The
    folder need not exist yet.
    """
    override = os.environ.get(VARIABLE)
    if override:
        return Path(override).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("napari-maskinversion", appauthor=False))


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A JSON object with a format version, in the configuration folder."""

    name: str  # File name in `config_folder`
    format: int  # Newest version that this code can read

    @property
    def path(self) -> Path:
        """Full path, whether the file exists or not."""
        return config_folder() / self.name

    def read(self, path: Path | None = None) -> tuple[dict[str, Any], str]:
        """Return the file's values, and one line that says why it was ignored.

        A missing file has no values, and no problem. ``path`` is another file of this format.
        """
        path = path or self.path
        try:
            values = read_json(path)
            version = values.pop("format")
        except (ValueError, KeyError, AttributeError, TypeError):
            return {}, _unreadable(path) if path.exists() else ""
        if not isinstance(version, int) or version > self.format:
            return {}, f"{path} was written by a newer version and was ignored."
        return values, ""

    @property
    def unreadable(self) -> str:
        """One line for a file with content that makes no sense."""
        return _unreadable(self.path)


def _unreadable(path: Path) -> str:
    return f"{path} cannot be read and was ignored."


LAST: Final = "last used"
SAFE: Final = "colour-blind safe"
FILE: Final = ConfigFile("preferences.json", 1)
PARTS: Final[tuple[str, ...]] = ("panel", "limits")
"""What the file holds beside the preferences, by name: see `config_parts`."""

Device = Literal["auto", "cpu", "cuda", "mps"]
FirstDevice = Literal["last used", Device]
Heatmap = Literal["turbo", "viridis", "magma", "inferno", "cividis", "hot", "gray"]
Palette = Literal["distinct", "colour-blind safe"]


class Preferences(FrozenModel):
    """What the panel starts with, its colours, and where files are kept.

    `model` is any text: only the panel knows which models exist.
    """

    model: str = setting(LAST, "Model at start", "The model the panel starts with.")
    device: FirstDevice = setting(
        "last used",
        "Device at start",
        "The device the panel starts with. auto: CUDA, else Apple's MPS, else the CPU.",
    )
    heatmap: Heatmap = setting("turbo", "Heatmap colours", "Colormap of heatmaps.")
    palette: Palette = setting(
        "distinct", "Label colours", "Colours of accepted labels that have no colour of their own."
    )
    live: StrictBool = setting(False, "Live at start", "Switch live mode on when the panel opens.")
    offline: StrictBool = setting(
        False, "Offline", "Download nothing, in the panel and on the command line."
    )
    cache_folder: str = setting(
        "",
        "Cache folder",
        "Full path of the folder for downloads and cached results; empty for the default folder.",
    )

    @field_validator("cache_folder")
    @classmethod
    def _check_folder(cls, folder: str) -> str:
        try:
            is_full = Path(folder).expanduser().is_absolute()
        except RuntimeError:  # ~name of a user who is not there
            is_full = False
        if folder and not is_full:
            raise ValueError("must be a full path, or empty")
        return folder

    def updated(self, values: Mapping[str, Any]) -> Preferences:
        """Return a copy with these values; names that are unknown and bad values are ignored."""
        preferences = self
        for name in Preferences.model_fields.keys() & values.keys():
            try:
                preferences = Preferences(**{**dict(preferences), name: values[name]})
            except ConfigError:
                continue
        return preferences


DEFAULTS: Final = Preferences()

_lock = threading.Lock()
_cached: tuple[Any, Preferences] | None = None


def choices(name: str) -> tuple[str, ...]:
    """Return the allowed values of a preference; empty if any text or switch is allowed."""
    return get_args(Preferences.model_fields[name].annotation)


def load() -> Preferences:
    """Return the current preferences; bad values in the file are replaced by the defaults.

    The file is read again only after it has changed.
    """
    global _cached
    path = FILE.path
    try:
        stat = path.stat()
    except OSError:
        return DEFAULTS
    key = (path, stat.st_mtime_ns, stat.st_size)
    with _lock:
        if _cached is None or _cached[0] != key:
            _cached = (key, DEFAULTS.updated(FILE.read()[0]))
        return _cached[1]


def forget_loaded() -> None:
    """Read the file again next time: it has changed."""
    global _cached
    with _lock:
        _cached = None
