"""Which regions belong to which image: by name, by one file for all, or by a table."""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..base.errors import InputError
from ..base.reading import read_bytes
from ..images.decoding import PICTURES
from ..images.ome_zarr import is_zarr

STEM: Final = "{name}"
_COLUMNS: Final = ("image", "regions")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An image and its regions, if it has any.

    Attributes
    ----------
    image : Path
    regions : Path or None
    name : str
        The file's name, if a table says no other.
    """

    image: Path
    regions: Path | None = None
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.image.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Images with their regions, and one line about each thing that was left out."""

    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()


def pair(images: str, regions: str | None) -> Pairs:
    """Find images and the regions of each.

    Parameters
    ----------
    images : str
        A pattern (``"images/*.png"``), a folder, or one file.
    regions : str, optional
        ``"masks/{name}_mask.png"``, where ``{name}`` stands for an image's name without suffix; or
        a pattern or folder, whose files belong to the image whose name (without suffix) theirs
        begins or ends with; or one file about all images.

    Raises
    ------
    InputError
        If there are no images or no such regions, or two files are regions of one image.
    """
    matched, notes = _images(images)
    if regions is None:
        return Pairs(pairs=tuple(Pair(image=image) for image in matched), notes=tuple(notes))
    if STEM in regions:
        return _by_template(matched, regions, notes)
    if _is_one(regions):
        file = Path(regions)
        return Pairs(
            pairs=tuple(Pair(image=image, regions=file) for image in matched if image != file),
            notes=tuple(notes),
        )
    files = _files(regions, "--regions")
    both = set(matched) & set(files)
    if both != set(matched):  # a pattern for all files of a folder
        matched = [image for image in matched if image not in both]
    return _by_name(matched, files, regions, notes)


def read_table(table: Path) -> Pairs:
    """Read a CSV file with the columns image, regions, and if need be name.

    Paths are relative to the folder of the table; an empty field means that there are no regions.

    Raises
    ------
    InputError
        If it cannot be read, or lacks a column; names the line.
    """
    try:
        text = read_bytes(table, "table of images").decode("utf-8-sig")
        reader = csv.DictReader(io.StringIO(text), strict=True)
        missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"{table} has no column {missing[0]!r}; it needs image and regions.")
        rows = [(reader.line_num, row) for row in reader]
    except UnicodeDecodeError:
        raise InputError(f"{table} is not text in UTF-8.") from None
    except csv.Error as error:
        raise InputError(f"{table} is not CSV ({error}).") from None
    pairs = []
    for line, row in rows:
        image, regions = (row[name] or "" for name in _COLUMNS)
        if not image:
            raise InputError(f"{table}, line {line}, names no image.")
        pairs.append(
            Pair(
                image=table.parent / image,
                regions=table.parent / regions if regions else None,
                name=row.get("name") or "",
            )
        )
    if not pairs:
        raise InputError(f"{table} names no image.")
    return Pairs(pairs=tuple(pairs))


def is_image(path: Path) -> bool:
    """Return whether a path looks like an image; its content is not read."""
    return path.suffix.lower() in {*PICTURES, ".npy"} or is_zarr(path)


def _images(pattern: str) -> tuple[list[Path], list[str]]:
    files = _files(pattern, "--images")
    images = [file for file in files if is_image(file)]
    stray = [file for file in files if file not in set(images)]
    notes = [f"{file} is no image and was left out." for file in stray]
    if not images:
        raise InputError(f"There is no image at {pattern}; check --images.")
    return images, notes


def _is_one(place: str) -> bool:
    path = Path(place)
    return path.exists() and (not path.is_dir() or is_zarr(path))


def _files(place: str, option: str) -> list[Path]:
    """Return the files of a pattern or folder, or the file itself, by name."""
    if _is_one(place):
        return [Path(place)]
    if os.path.isdir(place):  # noqa: PTH112
        place = os.path.join(glob.escape(place), "*")  # noqa: PTH118
    files = [Path(name) for name in sorted(glob.glob(place, recursive=True))]  # noqa: PTH207
    # The parts of a zarr folder are files, too.
    inside = {file for file in files if any(is_zarr(parent) for parent in file.parents)}
    files = [file for file in files if file not in inside and (file.is_file() or is_zarr(file))]
    if not files:
        raise InputError(f"There is no file at {place}; check {option}.")
    return files


def _by_template(images: Sequence[Path], template: str, notes: list[str]) -> Pairs:
    pairs = []
    masks = {Path(template.replace(STEM, _stem(image))) for image in images}
    for image in images:
        if image in masks:
            continue
        regions = Path(template.replace(STEM, _stem(image)))
        if not regions.exists():
            notes.append(f"{image} has no regions at {regions}.")
        pairs.append(Pair(image=image, regions=regions if regions.exists() else None))
    if not any(one.regions for one in pairs):
        raise InputError(f"There is no file at {template} for any image; check --regions.")
    return Pairs(pairs=tuple(pairs), notes=tuple(notes))


def _by_name(images: Sequence[Path], files: Sequence[Path], place: str, notes: list[str]) -> Pairs:
    by_stem: dict[str, list[Path]] = {}
    for image in images:
        by_stem.setdefault(_stem(image), []).append(image)
    regions: dict[Path, Path] = {}
    for file in files:
        stem = max((part for part in _parts(file) if part in by_stem), key=len, default=None)
        if stem is None:
            notes.append(f"{file} belongs to no image and was left out.")
            continue
        for image in by_stem[stem]:
            if image in regions:
                raise InputError(
                    f"{regions[image]} and {file} may both be the regions of {image}; choose one "
                    "kind with --regions, such as 'masks/{name}.png'."
                )
            regions[image] = file
    if not regions:
        raise InputError(
            f"No file at {place} has the name of an image, such as {_stem(images[0])}; check "
            "--regions."
        )
    notes += [f"{image} has no regions at {place}." for image in images if image not in regions]
    pairs = [Pair(image=image, regions=regions.get(image)) for image in images]
    return Pairs(pairs=tuple(pairs), notes=tuple(notes))


def _stem(path: Path) -> str:
    return re.sub(r"(?i)(\.ome)?\.\w+$", "", path.name)


def _parts(file: Path) -> set[str]:
    """Return the stem of a file, and what it begins and ends with, cut between words."""
    stem = _stem(file)
    places = [place for place in range(1, len(stem)) if not stem[place].isalnum()]
    return {stem, *(stem[:place] for place in places), *(stem[place + 1 :] for place in places)}
