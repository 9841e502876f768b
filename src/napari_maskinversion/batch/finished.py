"""The mark that an image of a batch is done, and whether it still is what is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel

from ..base.atomic_files import atomic_path, recover
from ..base.errors import InputError
from ..base.reading import read_json, validated
from ..regions.annotations.json_files import to_json_types
from .image_task import ImageTask

FILE: Final = "batch.json"
VERSION: Final = 1
# What changes no result.
_NO_RESULT: Final = ("device", "chunk_size")


class Finished(BaseModel):
    """What an image was computed from.

    Attributes
    ----------
    image, regions : dict
        Path, bytes and time of change of each file.
    settings : dict
        By the key of a `Setting`.
    words : dict
        The vocabulary, or templates and colours for names in the file of regions.
    formats : list of str
    """

    version: int = VERSION
    image: dict[str, Any]
    regions: dict[str, Any]
    settings: dict[str, Any]
    words: dict[str, Any]
    formats: list[str]

    @classmethod
    def of(cls, task: ImageTask) -> Self:
        """Describe a task as it is now.

        Raises
        ------
        OSError
            If a file is gone.
        """
        settings = task.settings.model_dump(mode="json", exclude=set(_NO_RESULT))
        words = {"templates": list(task.templates), "colors": dict(task.colors)}
        if task.vocabulary is not None:
            words = asdict(task.vocabulary)
        values = {
            "image": _describe(task.image),
            "regions": _describe(task.regions),
            "settings": settings,
            "words": words,
            "formats": list(task.formats),
        }
        return cls.model_validate(json.loads(json.dumps(to_json_types(values))))


def write_finished(finished: Finished, folder: Path) -> None:
    """Mark the results in a folder as complete.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    with atomic_path(folder / FILE) as part:
        part.write_text(finished.model_dump_json(indent=1), encoding="utf-8")


def is_finished(task: ImageTask) -> bool:
    """Return whether there are complete results of this image, whatever they were made from.

    Results that were complete when their process was killed are put into place first.
    """
    recover(task.archive)
    return (task.archive / FILE).is_file() and task.part.is_file()


def differences(task: ImageTask) -> list[str]:
    """Return what a task would do otherwise than its results were made; empty if nothing."""
    try:
        kept = validated(Finished, read_json(task.archive / FILE), task.archive / FILE)
        now = Finished.of(task)
    except (InputError, OSError):
        return ["files"]
    if kept.version != VERSION:
        return ["version"]
    return list(_differences(kept, now))


def _differences(kept: Finished, now: Finished) -> Iterator[str]:
    for name in ("image", "regions"):
        if getattr(kept, name) != getattr(now, name):
            yield name
    for name in (*kept.settings, *(now.settings.keys() - kept.settings.keys())):
        before, after = kept.settings.get(name), now.settings.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from (key for key in after if before.get(key) != after[key])
        elif before != after:
            yield name
    if kept.words != now.words:
        yield "labels"
    if not set(now.formats) <= set(kept.formats):
        yield "formats"


def _describe(path: Path) -> dict[str, Any]:
    about = path.stat()
    size = None if path.is_dir() else about.st_size
    return {"name": path.name, "bytes": size, "changed": about.st_mtime_ns}
