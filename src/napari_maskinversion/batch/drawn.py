"""Regions that somebody drew, kept in files of their own beside the project."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ..regions.annotations import coco_writing
from ..regions.annotations.annotation import Annotations
from .drawn_file import ABOUT, is_drawn, is_drawn_for
from .image_task import file_name
from .opened import DRAWN, OpenProject, free_name


def drawn_file(project: OpenProject, name: str) -> Path:
    """Return where regions of an image are kept: never at a file that is not ours."""
    now = project.regions(name)
    if now is not None and is_drawn(now):
        return now
    folder = project.folder / DRAWN
    return free_name(folder / f"{file_name(name)}.json", lambda file: is_drawn_for(file, name))


def save_drawn(project: OpenProject, name: str, annotations: Annotations) -> Path:
    """Write the regions of an image, whole or not at all; return the file."""
    file = drawn_file(project, name)
    file.parent.mkdir(parents=True, exist_ok=True)
    about = {**annotations.about, "description": f"{ABOUT} {name}"}
    image = project.path(name).name
    coco_writing.write_coco(replace(annotations, image=image, about=about), file)
    return file
