"""The mark that an image of a batch is done, and whether it still is what is asked for.

An image is done if the folder of its archive has the mark, a JSON that equals what a task would
write now. The mark also names the files of the results, which are deleted only if they fit it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Self
from urllib.parse import unquote

from pydantic import BaseModel, field_validator

from ..base.atomic_files import atomic_path, recover
from ..base.errors import InputError
from ..base.identity import file_sha256
from ..base.progress import with_ticks
from ..base.reading import is_address, read_json, validated
from ..engine.models.registry import own_model
from ..engine.models.specs import DEMO, WEIGHTS_FILE, bundled_folder
from ..language.captions.bank import TOP
from ..language.labels.vocabulary import Vocabulary
from ..regions.annotations.json_files import to_json_types
from ..regions.annotations.label_maps import map_files, read_names
from ..regions.annotations.yolo import YOLO, class_names
from ..results.export.archive import open_archive
from ..results.export.catalogue import FORMATS
from ..results.recipe import NO_RESULT, Recipe
from ..results.settings import RunSettings, settings_by_key
from .addresses import exists, size_and_version
from .image_task import ALWAYS, ARCHIVES, DATA_SET, PART, ImageTask, file_name, part_name

FILE: Final = "batch.json"
VERSION: Final = 3
MORE_FORMATS: Final = ["formats"]  # the difference that needs no computing
_LABEL_IMAGES: Final = (".tif", ".tiff")  # as this program writes them, with names beside


class FileFingerprint(BaseModel):
    """What tells a file, or a folder of files (zarr), from others, also copied or touched ones."""

    name: str
    bytes: int  # Of a folder: the sum, and the latest time
    changed: int
    sha256: str  # At an address: what its storage tells versions by

    @field_validator("name")
    @classmethod
    def _check_name(cls, name: str) -> str:
        # A record from elsewhere must not point to files of other folders.
        if name in ("", ".", "..") or any(sign in name for sign in "/\\\0"):
            raise ValueError("a file's name without its folder is wanted")
        return name

    @classmethod
    def of(cls, path: Path) -> Self:
        """Describe a file."""
        if is_address(path):
            size, version = size_and_version(path)
            return cls(name=path.name, bytes=size, changed=0, sha256=version)
        size, changed = _size_and_time(path)
        return cls(name=path.name, bytes=size, changed=changed, sha256=digest(path))

    def fits(self, path: Path) -> bool:
        """Return whether a file has this name and content; it is read only if its time differs."""
        if is_address(path):
            return exists(path) and self == FileFingerprint.of(path)
        try:
            size, changed = _size_and_time(path)
            if (path.name, size) != (self.name, self.bytes):
                return False
            return changed == self.changed or digest(path) == self.sha256
        except OSError:
            return False


def _files_in(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in with_ticks("Files", path.rglob("*")) if file.is_file())


def _size_and_time(path: Path) -> tuple[int, int]:
    size = 0
    newest = 0
    for file in with_ticks("Files", _files_in(path)):
        about = file.stat()
        size += about.st_size
        newest = max(newest, about.st_mtime_ns)
    return size, newest


def digest(path: Path) -> str:
    """Return the hash of a file, or of all files of a folder; raises OSError."""
    if not path.is_dir():
        return file_sha256(path)
    whole = hashlib.sha256()
    for file in with_ticks("Files", _files_in(path)):
        whole.update(f"{file.relative_to(path).as_posix()} {digest(file)}\n".encode())
    return whole.hexdigest()


class Finished(BaseModel):
    """What an image was computed from, and the files of its results."""

    version: int
    image: FileFingerprint
    regions: FileFingerprint
    settings: dict[str, Any]  # By the key of a `Setting`; weights in a file by their hash
    # The vocabulary, or templates and colours for names in the file of regions, and the names that
    # a file beside it holds
    words: dict[str, Any]
    formats: list[str]
    captions: str = ""  # Their hash
    part: FileFingerprint | None = None  # Of the part of the data set
    files: list[FileFingerprint] = []  # Of the files of the archive

    @classmethod
    def of(cls, task: ImageTask) -> Self:
        """Describe a task as it is now."""
        return cls(
            version=VERSION,
            image=FileFingerprint.of(task.image),
            regions=FileFingerprint.of(task.regions),
            settings=_settings(task),
            words=_words(task),
            formats=list(task.formats),
            captions=task.captions,
        )

    @property
    def recipe(self) -> Recipe:
        """What the results were made from."""
        return Recipe.of_values(_by_key(self.settings)).joined(
            Recipe(
                image={"image": self.image},
                regions={"regions": self.regions},
                ranking={"labels": self.words, "captions": self.captions},
            )
        )

    def with_files(self, folder: Path, **values: Any) -> Self:
        """Return the mark with the files of a folder among the results, and other values."""
        new = [FileFingerprint.of(file) for file in sorted(folder.iterdir())]
        names = {file.name for file in new}
        files = [*(file for file in self.files if file.name not in names), *new]
        return self.model_copy(update={**values, "files": files})


def write_finished(finished: Finished, folder: Path) -> None:
    """Mark the results in a folder as complete."""
    with atomic_path(folder / FILE) as part:
        part.write_text(finished.model_dump_json(indent=1), encoding="utf-8")


def read_finished(folder: Path) -> Finished:
    """Read the mark in the folder of an archive."""
    values = read_json(folder / FILE)
    if isinstance(values, dict) and values.get("version") != VERSION:
        raise InputError(f"{folder / FILE} is of another version of this program.")
    return validated(Finished, values, folder / FILE)


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
    changed = set()
    for file in mark.files:
        if not file.fits(task.archive / file.name):
            changed.add(file.name)
    archive = FORMATS[ALWAYS].file
    if changed == {archive}:
        try:
            open_archive(task.archive / archive)
        except InputError:
            return True
    return bool(changed - {archive})


def differences(task: ImageTask) -> list[str]:
    """Return what a task would do otherwise than its results were made; empty if nothing."""
    try:
        kept = read_finished(task.archive)
    except InputError:
        return ["version"]
    different = kept.recipe.differences(_recipe_now(task, kept))
    names = list(dict.fromkeys(difference.name for difference in different))
    if not set(task.formats) <= set(kept.formats):
        names += MORE_FORMATS
    return names


def _recipe_now(task: ImageTask, kept: Finished) -> Recipe:
    """Return what a task would be made from; files that fit the mark are not read again."""
    # A setting that only the mark has may have made any difference.
    settings = dict.fromkeys(_by_key(kept.settings)) | _by_key(_settings(task))
    if kept.captions != task.captions:  # How many there would be of others makes no difference
        del settings["top_captions"]
    return Recipe.of_values(settings).joined(
        Recipe(
            image={"image": kept.image if kept.image.fits(task.image) else None},
            regions={"regions": kept.regions if kept.regions.fits(task.regions) else None},
            ranking={"labels": _words(task), "captions": task.captions},
        )
    )


def _by_key(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a mark by the key of a `Setting`, None where it has none."""
    keys = settings_by_key(RunSettings)
    by_key: dict[str, Any] = {key: None for key in keys if key not in NO_RESULT}
    for name, value in settings.items():
        if isinstance(value, dict):
            by_key |= {f"{name}.{field}": inner for field, inner in value.items()}
        else:
            by_key[name] = value
    mode = by_key.pop("window.mode", None)
    side = by_key.pop("window.side", None)
    by_key["window"] = str(side) if mode == "fixed" else mode
    return by_key


def _settings(task: ImageTask) -> Any:
    settings = task.settings
    if not task.captions:  # how many there would be makes no difference
        settings = settings.changed({"top_captions": TOP})
    values = dict(_plain_settings(settings))
    # What tells weights from others, wherever they lie
    weights = own_model(task.model)
    if settings.model == DEMO:  # other versions of this program bundle other weights
        weights = bundled_folder() / WEIGHTS_FILE
    if weights is not None and weights.exists():
        values["model"] = f"sha256:{digest(weights)}"
    return values


@lru_cache(maxsize=8)  # Most images of a project have the same
def _plain_settings(settings: RunSettings) -> Mapping[str, Any]:
    values = _plain(settings.model_dump(mode="json", exclude=set(NO_RESULT)))
    return MappingProxyType(values)


@lru_cache(maxsize=8)
def _plain_words(vocabulary: Vocabulary) -> Mapping[str, Any]:
    """Return the words of a vocabulary without a classifier."""
    words = asdict(vocabulary)
    del words["learned"]
    return MappingProxyType(_plain(words))


def _words(task: ImageTask) -> Any:
    if task.vocabulary is not None and task.vocabulary.learned is None:
        return dict(_plain_words(task.vocabulary))
    if task.vocabulary is not None:
        words = asdict(task.vocabulary.chosen)
        # A classifier counts by its content, wherever it lies.
        learned = words.pop("learned")
        return _plain(words | ({} if learned is None else {"classifier": learned["sha256"]}))
    words = {"templates": list(task.templates), "colors": dict(task.colors)}
    return _plain(words | _names_beside(task.regions))


def _names_beside(regions: Path) -> dict[str, Any]:
    """Return the names that another file gives to regions, or its hash."""
    if is_address(regions):  # the other file stays there
        return {}
    if regions.suffix.lower() in YOLO.suffixes:
        with suppress(InputError):  # a run refuses it
            names = class_names(regions)
            if names:
                return {"names": names}
            return {}
        return {}
    if regions.suffix.lower() in _LABEL_IMAGES and read_names(regions).regions:
        return {"names": digest(map_files(regions)[2])}
    return {}


def _plain(values: Any) -> Any:
    """Return values as they come back from JSON."""
    return json.loads(json.dumps(to_json_types(values)))


# -- results of images that a batch no longer has; they would mix with its own in the data set -----


def leftovers(out: Path, names_known: Iterable[str]) -> tuple[str, ...]:
    """Return the names of images other than the known ones that have results in a folder."""
    file_names: set[str] = set()
    for name in names_known:
        file_names |= {part_name(name), file_name(name)}
    unlisted = set()
    for part in (out / DATA_SET).glob(f"*{PART}"):
        if part.name not in file_names:
            unlisted.add(unquote(part.name.removesuffix(PART)))
    for mark in (out / ARCHIVES).glob(f"*/{FILE}"):
        if mark.parent.name not in file_names:
            unlisted.add(unquote(mark.parent.name))
    return tuple(sorted(unlisted))


def remove(out: Path, names: Collection[str]) -> None:
    """Delete the results of images; other files in their folders stay."""
    for paths in check_removal(out, names).values():
        try:
            for path in paths:
                delete(path)
        except OSError as error:
            raise InputError(f"{error.filename} cannot be deleted ({error.strerror}).") from None
        with suppress(OSError):  # other files are in it
            paths[-1].parent.rmdir()


def delete(path: Path) -> None:
    """Delete a file or a zarr store; raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_removal(out: Path, names: Collection[str]) -> dict[str, list[Path]]:
    """Return by name what `remove` deletes: files that are what a batch wrote."""
    return {name: _files_of(out, name) for name in names}


def _files_of(out: Path, name: str) -> list[Path]:
    """Return the files of an image; the mark comes last, so that an interrupted call goes on."""
    archive = out / ARCHIVES / file_name(name)
    part = out / DATA_SET / part_name(name)
    try:
        if name.startswith("."):  # no image is called so: it would lead out of the folder
            raise InputError("")
        mark = read_finished(archive)
    except InputError:
        raise InputError(
            f"{part} has no readable mark of a batch at {archive / FILE}; delete this file and "
            "that folder yourself, or choose another --out."
        ) from None
    fingerprints = {part: mark.part}
    for fingerprint in mark.files:
        fingerprints[archive / fingerprint.name] = fingerprint
    files = []
    for path, fingerprint_of_file in fingerprints.items():
        if not path.exists() and not path.is_symlink():
            continue
        if fingerprint_of_file is None or not fingerprint_of_file.fits(path):
            raise InputError(
                f"{path} was changed since the batch wrote it; move or delete it, or choose "
                "another --out."
            )
        files.append(path)
    return [*files, archive / FILE]
