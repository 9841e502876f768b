"""The one folder for what is fetched or computed once, and what is in it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .preferences import load
from .registry import WEIGHTS_FILE, ModelSpec, bundled_folder

RECORD: Final = "source.json"
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


def model_folder(spec: ModelSpec) -> Path:
    """Return where the weights of a model that is not bundled are, or would be, kept."""
    return cache_folder() / "models" / spec.name.replace("/", "--")


def weights_on_disk(spec: ModelSpec) -> Path | None:
    """Return the complete weights file of a model, or None. Quick: looks at sizes only."""
    if spec.bundled:
        return bundled_folder() / WEIGHTS_FILE
    record = read_record(spec)
    if record is None:
        return None
    path = model_folder(spec) / record.file
    try:
        return path if path.stat().st_size == record.size else None
    except OSError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What is known of a weights file: written beside it, and asked of the hub before."""

    repository: str
    file: str
    size: int
    sha256: str
    commit: str = ""


def read_record(spec: ModelSpec) -> Record | None:
    """Return what is written beside the weights of a model; None if there is nothing whole."""
    try:
        values = json.loads((model_folder(spec) / RECORD).read_text("utf-8"))
        return Record(**values)
    except (OSError, ValueError, TypeError):
        return None
