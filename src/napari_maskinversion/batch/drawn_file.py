"""Recognises files of regions that somebody drew in the panel."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ABOUT: Final = "Regions drawn in napari-maskinversion for"
_HEAD: Final = 400  # bytes; the description comes first


def is_drawn(file: Path) -> bool:
    """Return whether this program wrote a file of drawn regions."""
    return ABOUT in _head(file)


def is_drawn_for(file: Path, name: str) -> bool:
    """Return whether a file holds the regions that somebody drew on an image of a project."""
    return f'{ABOUT} {name}"' in _head(file)


def _head(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return content.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        return ""
