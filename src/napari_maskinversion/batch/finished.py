"""The mark that an image of a batch is done, and whether it still is what is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel

from ..base.atomic_files import atomic_path, recover
from ..base.errors import InputError
from ..base.reading import is_address, read_json, validated
from ..engine.models.registry import own_model
from ..engine.models.specs import DEMO, WEIGHTS_FILE, bundled_folder
from ..language.captions.bank import TOP
from ..regions.annotations.json_files import to_json_types
from ..regions.annotations.label_maps import map_files, read_names
from ..regions.annotations.yolo import YOLO, class_names
from ..results.export.archive import open_archive
from ..results.export.catalogue import FORMATS
from .fingerprint import Fingerprint, digest
from .image_task import ALWAYS, ImageTask

FILE: Final = "batch.json"
VERSION: Final = 3
MORE_FORMATS: Final = ["formats"]  # the difference that needs no computing
_LABEL_IMAGES: Final = (".tif", ".tiff")  # as this program writes them, with names beside
# What changes no result.
_NO_RESULT: Final = ("device", "chunk_size")


class Finished(BaseModel):
    """What an image was computed from, and the files of its results."""

    version: int
    image: Fingerprint
    regions: Fingerprint
    settings: dict[str, Any]  # By the key of a `Setting`; weights in a file by their hash
    # The vocabulary, or templates and colours for names in the file of regions, and the names that
    # a file beside it holds
    words: dict[str, Any]
    formats: list[str]
    captions: str = ""  # Their hash
    part: Fingerprint | None = None  # Of the part of the data set
    files: list[Fingerprint] = []  # Of the files of the archive

    @classmethod
    def of(cls, task: ImageTask) -> Self:
        """Describe a task as it is now."""
        return cls(
            version=VERSION,
            image=Fingerprint.of(task.image),
            regions=Fingerprint.of(task.regions),
            settings=_settings(task),
            words=_words(task),
            formats=list(task.formats),
            captions=task.captions,
        )

    def is_of(self, other: Self) -> bool:
        """Return whether both are of the same work on the same files, whatever came out."""
        return self._without_results() == other._without_results()

    def _without_results(self) -> dict[str, Any]:
        """Return everything but the files of the results, and the times of the inputs."""
        values = self.model_dump(exclude={"files", "part"})
        for name in ("image", "regions"):
            del values[name]["changed"]
        return values

    def with_files(self, part: Path, folder: Path) -> Self:
        """Return the mark with the results: the part of the data set, and a folder's files."""
        files = [Fingerprint.of(file) for file in sorted(folder.iterdir())]
        return self.model_copy(update={"part": Fingerprint.of(part), "files": files})

    def with_more(self, formats: Iterable[str], folder: Path) -> Self:
        """Return the mark with more formats, and their files in a folder."""
        more = [Fingerprint.of(file) for file in sorted(folder.iterdir())]
        names = {file.name for file in more}
        files = [*(file for file in self.files if file.name not in names), *more]
        return self.model_copy(update={"formats": [*self.formats, *formats], "files": files})


def write_finished(finished: Finished, folder: Path) -> None:
    """Mark the results in a folder as complete."""
    with atomic_path(folder / FILE) as part:
        part.write_text(finished.model_dump_json(indent=1), encoding="utf-8")


def is_marked(task: ImageTask) -> bool:
    """Return whether results of this image were completed, whatever they were made from.

    Results that were complete when their process was killed are put into place first.
    """
    recover(task.archive)
    return (task.archive / FILE).is_file()


def is_damaged(task: ImageTask) -> bool:
    """Return whether completed results have changed or are gone.

    An archive that opens is not: the panel may have saved decisions in it.
    """
    try:
        mark = read_finished(task.archive)
    except InputError:
        return False  # nothing is known of them
    if mark.part is None or not mark.part.fits(task.part):
        return True
    changed = {file.name for file in mark.files if not file.fits(task.archive / file.name)}
    archive = FORMATS[ALWAYS].file
    return bool(changed - {archive}) or (archive in changed and not _opens(task.archive / archive))


def read_finished(folder: Path) -> Finished:
    """Read the mark in the folder of an archive."""
    values = read_json(folder / FILE)
    if isinstance(values, dict) and values.get("version") != VERSION:
        raise OtherVersion(f"{folder / FILE} is of another version of this program.")
    return validated(Finished, values, folder / FILE)


class OtherVersion(InputError):
    """A mark of another version."""


def differences(task: ImageTask) -> list[str]:
    """Return what a task would do otherwise than its results were made; empty if nothing."""
    try:
        kept = read_finished(task.archive)
    except OtherVersion:
        return ["version"]
    except InputError:
        return ["files"]
    return list(_differences(kept, task))


def _differences(kept: Finished, task: ImageTask) -> Iterator[str]:
    if not kept.image.fits(task.image):
        yield "image"
    if not kept.regions.fits(task.regions):
        yield "regions"
    settings, earlier = _settings(task), dict(kept.settings)
    if earlier.get("multi_scale") == "off":  # a setting that is gone, and made no difference
        del earlier["multi_scale"]
    for name in (*earlier, *(settings.keys() - earlier.keys())):
        if name == "top_captions" and kept.captions != task.captions:
            continue  # said below
        before, after = earlier.get(name), settings.get(name)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from (key for key in after if before.get(key) != after[key])
        elif before != after:
            yield name
    if kept.words != _words(task):
        yield "labels"
    if kept.captions != task.captions:
        yield "captions"
    if not set(task.formats) <= set(kept.formats):
        yield from MORE_FORMATS


def _settings(task: ImageTask) -> Any:
    settings = task.settings
    if not task.captions:  # how many there would be makes no difference
        settings = settings.changed({"top_captions": TOP})
    values = _plain(settings.model_dump(mode="json", exclude=set(_NO_RESULT)))
    return {**values, "model": _weights(task)}


def _weights(task: ImageTask) -> str:
    """Return what tells weights from others: the hash of a file or folder, wherever it lies."""
    path = own_model(task.model)
    if task.settings.model == DEMO:  # other versions of this program bundle other weights
        path = bundled_folder() / WEIGHTS_FILE
    if path is None or not path.exists():
        return task.settings.model
    return f"sha256:{digest(path)}"


def _words(task: ImageTask) -> Any:
    if task.vocabulary is not None:
        return _plain(asdict(task.vocabulary))
    words = {"templates": list(task.templates), "colors": dict(task.colors)}
    return _plain(words | _names_beside(task.regions))


def _names_beside(regions: Path) -> dict[str, Any]:
    """Return the names that another file gives to regions, or its hash."""
    if is_address(regions):  # the other file stays there
        return {}
    if regions.suffix.lower() in YOLO.suffixes:
        with suppress(InputError):  # a run refuses it
            names = class_names(regions)
            return {"names": names} if names else {}
        return {}
    if regions.suffix.lower() in _LABEL_IMAGES and read_names(regions).regions:
        return {"names": digest(map_files(regions)[2])}
    return {}


def _plain(values: Any) -> Any:
    """Return values as they come back from JSON."""
    return json.loads(json.dumps(to_json_types(values)))


def _opens(archive: Path) -> bool:
    try:
        open_archive(archive)
    except InputError:
        return False
    return True
