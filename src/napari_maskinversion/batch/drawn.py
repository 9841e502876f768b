"""Regions that somebody drew, kept in files of their own beside the project."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ..regions.annotations import coco
from ..regions.annotations.annotation import Annotations
from .opened import DRAWN, OpenProject, free_name

_ABOUT: Final = "Regions drawn in napari-maskinversion for"
_HEAD: Final = 400  # bytes; the description comes first


def drawn_file(project: OpenProject, name: str) -> Path:
    """Return where regions of an image are kept: never at a file that is not ours."""
    now = project.regions(name)
    if now is not None and is_drawn(now):
        return now
    folder = project.folder / DRAWN
    return free_name(folder / f"{quote(name, safe=' ')}.json", lambda file: _is_of(file, name))


def save_drawn(project: OpenProject, name: str, annotations: Annotations) -> Path:
    """Write the regions of an image, whole or not at all; return the file.

    Raises
    ------
    InputError
        If it cannot be written; an earlier file stays.
    """
    file = drawn_file(project, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    about = {**annotations.about, "description": f"{_ABOUT} {name}"}
    image = project.path(name).name
    coco.write_coco(replace(annotations, image=image, about=about), file)
    return file


def is_drawn(file: Path) -> bool:
    """Return whether this program wrote a file of drawn regions."""
    return _ABOUT in _head(file)


def _is_of(file: Path, name: str) -> bool:
    return f'{_ABOUT} {name}"' in _head(file)


def _head(file: Path) -> str:
    try:
        with file.open("rb") as content:
            return content.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        return ""
