"""Results of images that a batch no longer has; they would mix with its own in the data set."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from ..base.errors import InputError
from .finished import FILE, read_finished
from .image_task import (
    ARCHIVES,
    DATA_SET,
    PART,
    archive_of,
    file_name,
    image_of_part,
    part_name,
    part_of,
)


def leftovers(out: Path, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names of images other than the known ones that have results in a folder."""
    own = set(known)
    names = {part_name(name) for name in own} | {file_name(name) for name in own}
    parts = (out / DATA_SET).glob(f"*{PART}")
    marked = (mark.parent for mark in (out / ARCHIVES).glob(f"*/{FILE}"))
    others = {image_of_part(part) for part in parts if part.name not in names}
    others |= {unquote(folder.name) for folder in marked if folder.name not in names}
    return tuple(sorted(others))


def remove(out: Path, names: Collection[str]) -> None:
    """Delete the results of images; other files in their folders stay."""
    for name, paths in check_removal(out, names).items():
        try:
            for path in paths:
                delete(path)
        except OSError as error:
            raise InputError(f"{error.filename} cannot be deleted ({error.strerror}).") from None
        with suppress(OSError):  # other files are in it
            archive_of(out, name).rmdir()


def delete(path: Path) -> None:
    """Delete a file or a zarr store; raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def check_removal(out: Path, names: Collection[str]) -> dict[str, list[Path]]:
    """Return by name what `remove` deletes: files that are what a batch wrote."""
    return {name: _files(out, name) for name in names}


def _files(out: Path, name: str) -> list[Path]:
    """Return the files of an image; the mark comes last, so that an interrupted call goes on."""
    archive = archive_of(out, name)
    try:
        if name.startswith("."):  # no image is called so: it would lead out of the folder
            raise InputError("")
        mark = read_finished(archive)
    except InputError:
        raise InputError(
            f"{part_of(out, name)} has no readable mark of a batch at {archive / FILE}; delete "
            "this file and that folder yourself, or choose another --out."
        ) from None
    files = [(part_of(out, name), mark.part), *((archive / one.name, one) for one in mark.files)]
    files = [(path, one) for path, one in files if path.exists() or path.is_symlink()]
    for path, one in files:
        if one is None or not one.fits(path):
            raise InputError(
                f"{path} was changed since the batch wrote it; move or delete it, or choose "
                "another --out."
            )
    return [*(path for path, _ in files), archive / FILE]
