"""Exports of many images as a folder with a file for each, and a list of the file of each image."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from ...base.atomic_files import atomic_folder
from ...base.errors import InputError
from ...base.validation import encodable
from .bundle import AddImage, Bundle, ExportFormat, ImageOfMany, ManyImages
from .table_export import without_formula

LIST: Final = "images.csv"
_COLUMNS: Final = ["image", "file", "program"]
_PROGRAM: Final = "napari-maskinversion"


def file_for_each(entry: ExportFormat) -> ManyImages:
    """Return how a format that joins nothing holds many images: a file for each in a folder."""
    return ManyImages(
        title=entry.title,
        file=entry.name,
        writing=partial(_writing, entry),
        foreign_files=foreign_files,
    )


@contextmanager
def _writing(entry: ExportFormat, folder: Path) -> Iterator[AddImage]:
    with atomic_folder(folder) as part:
        files = _Files(entry, part)
        yield files.add
        files.write_list()


class _Files:
    """The files of a folder that is being written."""

    def __init__(self, entry: ExportFormat, folder: Path) -> None:
        self._entry = entry
        self._folder = folder
        self._taken = {LIST}  # Names in lower case: many disks do not tell them from upper case
        self._rows: list[list[str]] = []

    def add(self, image: ImageOfMany, bundle: Bundle) -> None:
        """Write the file, or files, of an image."""
        # In a folder of its own: each write looks through its folder for what killed ones left.
        with TemporaryDirectory(dir=self._folder) as place:
            path = Path(place) / self._free_name(image)
            try:
                self._entry.write(bundle, path)
            except InputError as error:
                disk_error = error.__cause__ or error.__context__
                if isinstance(disk_error, OSError):
                    raise disk_error from None  # told with the name of the folder
                raise InputError(f"{image.name}: {error}") from error
            for file in self._entry.files(path):
                if file.exists():  # heatmaps of an image without regions are none
                    file.replace(self._folder / file.name)
                    name = without_formula(encodable(image.name))
                    self._rows.append([name, file.name, _PROGRAM])

    def _free_name(self, image: ImageOfMany) -> str:
        """Return a name for the first file of an image; no file of another image has it."""
        number = 1
        # One number for all files of the entry.
        while True:
            stem = image.stem if number == 1 else f"{image.stem}_{number}"
            name = f"{stem}{self._entry.suffixes}"
            names = {file.name.lower() for file in self._entry.files(Path(name))}
            if not names & self._taken:
                self._taken |= names
                return name
            number += 1

    def write_list(self) -> None:
        """Write which file belongs to which image."""
        with (self._folder / LIST).open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([_COLUMNS, *self._rows])


def foreign_files(folder: Path) -> list[str]:
    """Return the names of what `file_for_each` did not write to a folder."""
    return sorted({file.name for file in folder.iterdir()} - _listed(folder / LIST))


def _listed(file: Path) -> set[str]:
    """Return the files that a list names, with its own; none if another program wrote it."""
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            head, *rows = csv.reader(opened)
    except (OSError, ValueError, csv.Error):
        return set()
    if head != _COLUMNS or any(len(row) != 3 or row[2] != _PROGRAM for row in rows):
        return set()
    return {LIST, *(row[1] for row in rows)}
