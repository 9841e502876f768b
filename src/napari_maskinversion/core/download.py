"""Fetching weights."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .registry import ModelSpec


def cache_folder() -> Path:
    import platformdirs

    override = os.environ.get("NAPARI_MASKINVERSION_CACHE")
    return (
        Path(override).expanduser()
        if override
        else Path(platformdirs.user_cache_dir("napari-maskinversion", appauthor=False))
    )


def weights_on_disk(spec: ModelSpec) -> Path | None:
    return None


def fetch(
    name: str,
    *,
    on_progress: Callable[[int, int], None] | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> Path:
    raise NotImplementedError
