"""The cache folder: everything that is downloaded or computed once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from .preferences import load

VARIABLE: Final = "NAPARI_MASKINVERSION_CACHE"


def cache_folder() -> Path:
    """Return the one folder for everything that is fetched or cached.

    The environment variable ``NAPARI_MASKINVERSION_CACHE`` chooses another one, else the
    preferences do. The folder need not exist yet.
    """
    chosen = os.environ.get(VARIABLE) or load().cache_folder
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs

    return Path(platformdirs.user_cache_dir("napari-maskinversion", appauthor=False))


def is_offline() -> bool:
    """Return whether the user forbids network access.

    Read at every call from ``NAPARI_MASKINVERSION_OFFLINE``, ``HF_HUB_OFFLINE`` and the
    preferences.
    """
    if load().offline:
        return True
    names = ("NAPARI_MASKINVERSION_OFFLINE", "HF_HUB_OFFLINE")
    return any(os.environ.get(name, "").lower() in {"1", "true", "yes", "on"} for name in names)
