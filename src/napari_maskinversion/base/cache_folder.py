"""The cache folder: everything that is downloaded, or computed once and reused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from .preferences import load

VARIABLE: Final = "NAPARI_MASKINVERSION_CACHE"


def cache_folder() -> Path:
    """Return the cache folder, which may not exist yet.

    The environment variable ``NAPARI_MASKINVERSION_CACHE`` comes first, then the preferences, then
    the usual place of the operating system.
    """
    chosen = os.environ.get(VARIABLE) or load().cache_folder
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("napari-maskinversion", appauthor=False))


def is_offline() -> bool:
    """Return whether the user forbids network access.

    Reads ``NAPARI_MASKINVERSION_OFFLINE``, ``HF_HUB_OFFLINE`` and the preferences at every call.
    """
    if load().offline:
        return True
    names = ("NAPARI_MASKINVERSION_OFFLINE", "HF_HUB_OFFLINE")
    return any(os.environ.get(name, "").lower() in {"1", "true", "yes", "on"} for name in names)
