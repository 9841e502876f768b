"""Results of images that a batch no longer has; they would mix with its own in the data set."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote

from ..base.errors import InputError
from .finished import FILE, read_finished
from .image_task import ARCHIVES, DATA_SET, PART, archive_of, image_of_part, part_of


def leftovers(out: Path, known: Iterable[str]) -> tuple[str, ...]:
    """Return the names of images other than the known ones that have results in a folder."""
    parts = {image_of_part(part) for part in (out / DATA_SET).glob(f"*{PART}")}
    marked = {unquote(mark.parent.name) for mark in (out / ARCHIVES).glob(f"*/{FILE}")}
    return tuple(sorted((parts | marked) - set(known)))


def remove(out: Path, names: Collection[str]) -> None:
    """Delete the results of images; other files in their folders stay.

    Raises
    ------
    InputError
        If there is no mark that a batch wrote them, or they cannot be deleted; names the file.
    """
    files = {name: _files(out, name) for name in names}  # refused before anything is deleted
    for name, paths in files.items():
        try:
            for path in paths:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"{error.filename} cannot be deleted ({error.strerror}).") from None
        with suppress(OSError):  # other files are in it
            archive_of(out, name).rmdir()


def _files(out: Path, name: str) -> list[Path]:
    """Return the files of an image; the mark comes last, so that an interrupted call goes on."""
    archive = archive_of(out, name)
    try:
        mark = read_finished(archive)
    except InputError:
        raise InputError(
            f"{part_of(out, name)} has no readable mark of a batch at {archive / FILE}; delete "
            "this file and that folder yourself, or choose another --out."
        ) from None
    return [part_of(out, name), *(archive / file.name for file in mark.files), archive / FILE]
