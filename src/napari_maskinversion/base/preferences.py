"""User preferences: one file, read by the panel and the command line."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError, field_validator

from .config_file import ConfigFile
from .errors import ConfigError
from .validation import config_error

LAST: Final = "last used"
SAFE: Final = "colour-blind safe"
FILE: Final = ConfigFile("preferences.json", 1)

Device = Literal["auto", "cpu", "cuda", "mps"]
FirstDevice = Literal["last used", Device]
Heatmap = Literal["turbo", "viridis", "magma", "inferno", "cividis", "hot", "gray"]
Palette = Literal["distinct", "colour-blind safe"]


class Preferences(BaseModel):
    """What the panel starts with, its colours, and where files are kept.

    `model` is any text: only the panel knows which models exist.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    model: str = Field(LAST, title="Model at start", description="The model the panel starts with.")
    device: FirstDevice = Field(
        "last used",
        title="Device at start",
        description="The device the panel starts with. auto: CUDA, else Apple's MPS, else the CPU.",
    )
    heatmap: Heatmap = Field("turbo", title="Heatmap colours", description="Colormap of heatmaps.")
    palette: Palette = Field(
        "distinct",
        title="Label colours",
        description="Colours of accepted labels that have no colour of their own.",
    )
    live: StrictBool = Field(
        False, title="Live at start", description="Switch live mode on when the panel opens."
    )
    offline: StrictBool = Field(
        False,
        title="Offline",
        description="Download nothing, in the panel and on the command line.",
    )
    cache_folder: str = Field(
        "",
        title="Cache folder",
        description="Full path of the folder for downloads and cached results; empty for the "
        "default folder.",
    )

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise config_error(error) from None

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


def save(preferences: Preferences) -> None:
    """Write the preferences."""
    global _cached
    FILE.write(preferences.model_dump())
    with _lock:
        _cached = None
