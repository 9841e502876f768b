"""The cache folder: everything that is downloaded, or computed once and reused."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from .preferences import load
from .reading import read_json

VARIABLE: Final = "NAPARI_MASKINVERSION_CACHE"
MARKER: Final = ".maskinversion-store"
ACCEPTED: Final = "accepted"  # store of the personal library
VERSION: Final = 1
_NOTE: Final = "Clearing the cache of napari-maskinversion deletes this folder with all its files."


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


def make_folder(folder: Path) -> None:
    """Create a folder; a store that is created in the cache folder is marked as ours.

    A store is a folder directly in the cache folder, such as ``models``. A store that exists
    already is never marked: it may hold somebody else's files.
    """
    root = cache_folder()
    if root in folder.parents:
        store = root / folder.relative_to(root).parts[0]
        root.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            store.mkdir()
            content = {"store": store.name, "version": VERSION, "note": _NOTE}
            (store / MARKER).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)


def is_marked(store: Path) -> bool:
    """Return whether everything in a folder is ours: `make_folder` created it."""
    try:
        content = read_json(store / MARKER)
        return bool(content["store"] == store.name and content["version"] == VERSION)
    except (ValueError, KeyError, TypeError):
        return False
