"""Which regions belong to which image: by name, by one file for all, or by a table."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..base.errors import InputError
from ..base.reading import is_address, read_rows
from ..images.decoding import PICTURES, SLIDES
from ..images.ome_zarr import images_in, is_plate, is_zarr, label_images
from ..images.opening import open_image
from ..images.other_formats import SUFFIXES
from ..regions.annotations.annotation_reading import is_annotations
from ..review.decision_file import SUFFIX as DECISIONS
from .addresses import address_of, exists, is_one, matching

STEM = "{name}"
PLACE = "{image}"
NUMBER = "{series}"
FOLDER = "{folder}"
_COLUMNS: Final = ("image", "regions")
_WILDCARD: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An image and its regions, if it has any."""

    image: Path
    series: int | None = None  # Its number in a file with several; None for the settings' one
    regions: Path | None = None
    # The file's name, if a table says no other; with its folder where several have one name
    name: str = ""
    # The folder of the file, from the one that the pattern or table names; "" for that one
    folder: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.image.name)

    def __str__(self) -> str:
        """Return the file, and which image of it."""
        if is_address(self.image):
            place = address_of(self.image)
        else:
            place = str(self.image)
        if self.series is None:
            return place
        return f"{place} (image {self.series})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Images with their regions, and one line about each thing that was left out."""

    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()


def pair(images: str, regions: str | None, *, positions: bool = False) -> Pairs:
    """Find images and the regions of each."""
    files = _files(images, "--images", is_image)
    root = _root(images)
    notes = []
    for file in files:
        if not is_image(file):
            notes.append(f"{file} is not an image and was left out.")
    if len(notes) == len(files):
        raise InputError(f"There is no image at {images}; check --images.")
    matched = []
    for file in files:
        if is_image(file):
            for paired_image in images_of(file, positions=positions):
                matched.append(replace(paired_image, folder=_names_between(root, file.parent)))
    if regions is None:
        matched = list(map(_with_own_labels, matched))
    elif any(field in regions for field in (STEM, PLACE, NUMBER, FOLDER)):
        matched = _by_template(matched, regions, notes)
    elif _is_one(regions):
        matched = _by_file(matched, Path(regions))
    else:
        matched = _by_name(matched, regions, notes)
    return Pairs(pairs=_with_names(matched), notes=tuple(notes))


def read_table(table: Path) -> Pairs:
    """Read a CSV file with the columns image, regions, and if need be name and series.

    Paths are relative to the folder of the table, or addresses; an empty field means that there are
    no regions.
    """
    pairs = []
    for line, row in read_rows(table, "table of images", needed=_COLUMNS):
        image = row["image"]
        regions = row["regions"]
        name = row.get("name", "")
        if not image:
            raise InputError(f"{table}, line {line}, names no image.")
        series = row.get("series", "")
        if series and not series.isdecimal():
            raise InputError(f"{table}, line {line}: series is a number from 0; got {series!r}.")
        pairs.append(
            Pair(
                image=_from(table.parent, image),
                series=int(series) if series else None,
                regions=_from(table.parent, regions) if regions else None,
                name=name,
                folder="" if name else _names_of(Path(image).parent),
            )
        )
    return Pairs(pairs=_with_names(pairs))


def _from(folder: Path, name: str) -> Path:
    if is_address(name):
        return Path(name)
    return folder / name


def is_image(path: Path) -> bool:
    """Return whether a path looks like an image; its content is not read."""
    if path.suffix == ".zarr" and is_address(path):
        return True
    return path.suffix.lower() in {*PICTURES, *SLIDES, *SUFFIXES, ".npy"} or is_zarr(path)


def images_of(file: Path, *, positions: bool = False) -> list[Pair]:
    """Return the images of a file: the fields of a plate, or the file itself."""
    stem = _stem(file.name)
    if is_zarr(file):
        if positions or is_plate(file):
            inner = images_in(file)
        else:
            inner = (file,)
        if inner != (file,):
            pairs = []
            for inner_image in inner:
                name = inner_image.relative_to(file).as_posix()
                pairs.append(Pair(image=inner_image, name=f"{stem}_{_flat(name)}"))
            return pairs
    elif positions:
        with open_image(file) as stack:
            count = len(stack.images)
        if count > 1:
            return [Pair(image=file, series=n, name=f"{stem}_{n}") for n in range(count)]
    return [Pair(image=file)]


def _flat(name: str) -> str:
    """Return the place of an image in a store as a part of its name: A/1/0 is A1_0."""
    parts = name.removeprefix("images/").split("/")
    if len(parts) == 3:
        return "_".join(("".join(parts[:2]), *parts[2:]))
    return "_".join(parts)


def _with_own_labels(image: Pair) -> Pair:
    """Return an image with the labels that OME-Zarr keeps in it."""
    if not is_zarr(image.image):
        return image
    labels = label_images(image.image)
    if len(labels) > 1:
        names = ", ".join(label.name for label in labels)
        raise InputError(
            f"{image.image} has {len(labels)} label images ({names}); choose one with --regions "
            f"'{{image}}/labels/{labels[0].name}'."
        )
    return replace(image, regions=labels[0] if labels else None)


def _is_one(place: str) -> bool:
    if is_address(place):
        return not _WILDCARD.search(place) and is_one(place)
    path = Path(place)
    return path.exists() and (not path.is_dir() or is_zarr(path))


def _root(place: str) -> Path:
    """Return the folder that a pattern names without wildcards, or that of a file."""
    path = Path(place)
    if _is_one(place):
        return path.parent
    if path.exists():
        return path
    return Path(*path.parts[: _literal(path.parts)])


def _literal(parts: Sequence[str]) -> int:
    """Count the first parts of a pattern that are no pattern, such as a folder "run [2024]"."""
    count = 0
    # A folder that is there is meant, whatever signs are in its name.
    while count < len(parts) and (
        not _WILDCARD.search(parts[count]) or Path(*parts[: count + 1]).is_dir()
    ):
        count += 1
    return count


def _names_between(root: Path, folder: Path) -> str:
    """Return the way from one folder to another as a part of a name."""
    # A storage may write its address otherwise than the user.
    if folder.is_relative_to(root):
        return _names_of(folder.relative_to(root))
    return ""


def _names_of(folder: Path) -> str:
    """Return a folder as a part of a name."""
    return "/".join(part for part in folder.parts if part not in (folder.anchor, ".."))


def _with_names(pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """Return images, named with their folders where several have one name."""
    pairs = tuple(pairs)
    count = Counter(paired_image.name.casefold() for paired_image in pairs)
    named = []
    for image in pairs:
        if image.folder and count[image.name.casefold()] > 1:
            named.append(replace(image, name=f"{image.folder}/{image.name}"))
        else:
            named.append(image)
    return tuple(named)


def _files(
    place: str, option: str, is_meant: Callable[[Path], bool] = lambda _: True
) -> list[Path]:
    """Return the files of a pattern or folder, or the file itself, by name.

    Where a folder has no file that is meant, its subfolders count.
    """
    if _is_one(place):
        return [Path(place)]
    if os.path.isdir(place):  # noqa: PTH112
        folder = glob.escape(place)
        files = _matching(os.path.join(folder, "*"))  # noqa: PTH118
        if not any(map(is_meant, files)):
            files = _matching(os.path.join(folder, "**", "*"))  # noqa: PTH118
    else:
        parts = Path(place).parts
        folder = glob.escape(str(Path(*parts[: _literal(parts)])))
        pattern = parts[_literal(parts) :]
        if is_address(place):
            files = matching(place)
        else:
            files = _matching(os.path.join(folder, *pattern))  # noqa: PTH118
        if not files and "[" in place:  # brackets in names are more usual than in patterns
            files = _matching(place.replace("[", "[[]"))
    if not files:
        raise InputError(f"There is no file at {place}; check {option}.")
    return files


def _matching(pattern: str) -> list[Path]:
    names = glob.glob(pattern, recursive=True)  # noqa: PTH207
    files = [Path(name) for name in sorted(names) if not name.endswith(DECISIONS)]
    # The parts of a zarr folder are files, too; those that a pattern names in it are meant. A link
    # to nothing counts: the image that is gone is named where it is read.
    stores = {file for file in files if is_zarr(file)}
    meant = []
    for file in files:
        is_in_store = bool(stores.intersection(file.parents))
        if not is_in_store and (file in stores or not file.is_dir()):
            meant.append(file)
    return meant


def _by_file(images: Sequence[Pair], file: Path) -> list[Pair]:
    """Pair all images with one file, or those of a store with its own labels."""
    if is_zarr(file) and any(file in (image.image, *image.image.parents) for image in images):
        return list(map(_with_own_labels, images))
    return [replace(image, regions=file) for image in images if image.image != file]


def _by_template(images: Sequence[Pair], template: str, notes: list[str]) -> list[Pair]:
    files = [_filled(template, image) for image in images]
    there = {file for file in files if exists(file)}
    if not there:
        raise InputError(f"There is no file at {template} for any image; give other regions.")
    pairs = []
    for image, file in zip(images, files, strict=True):
        if image.image in there:  # the masks lie beside the images
            continue
        if file not in there:
            notes.append(f"{image} has no regions at {file}.")
        pairs.append(replace(image, regions=file if file in there else None))
    return pairs


def _filled(template: str, image: Pair) -> Path:
    """Return the path of an image's regions."""
    series = "" if image.series is None else str(image.series)
    if series and NUMBER in template:
        stem = _stem(image.image.name)
    else:
        stem = _stem_of(image)
    values = {STEM: stem, NUMBER: series, FOLDER: image.folder or ".", PLACE: str(image.image)}
    return Path(re.sub("|".join(values), lambda part: values[part[0]], template))


def _by_name(images: list[Pair], place: str, notes: list[str]) -> list[Pair]:
    """Pair each file with the image whose name it begins or ends with."""
    files = _files(place, "--regions")
    both = {image.image for image in images} & set(files)
    if both != {image.image for image in images}:  # a pattern for all files of a folder
        images = [image for image in images if image.image not in both]
    by_stem: dict[str, list[int]] = {}
    for number, image in enumerate(images):
        by_stem.setdefault(_stem_of(image), []).append(number)
    regions: dict[int, Path] = {}
    for file in files:
        candidates: list[int] = []
        for part in _parts(file):
            candidates.extend(by_stem.get(part, ()))
        if not candidates:
            notes.append(f"{file} belongs to no image and was left out.")
        for number in _best(file, candidates, images):
            if number in regions:
                raise InputError(
                    f"{regions[number]} and {file} may both be the regions of {images[number]}; "
                    "choose one kind with --regions, such as 'masks/{name}.png'."
                )
            regions[number] = file
    if not regions and len(files) == 1 and is_annotations(files[0]):
        notes[:] = [note for note in notes if str(files[0]) not in note]
        return _by_file(images, files[0])  # such as one COCO file for all
    if not regions:
        raise InputError(
            f"No file at {place} has the name of an image, such as {_stem_of(images[0])}; give "
            "other regions."
        )
    pairs = [replace(image, regions=regions.get(number)) for number, image in enumerate(images)]
    notes += [f"{paired} has no regions at {place}." for paired in pairs if paired.regions is None]
    return pairs


def _best(file: Path, numbers: Sequence[int], images: Sequence[Pair]) -> list[int]:
    """Return the images with the longest name in that of a file, and most folders in common."""
    folders = set(file.absolute().parent.parts)

    def rank(number: int) -> tuple[int, int]:
        shared = folders.intersection(images[number].image.absolute().parent.parts)
        return len(_stem_of(images[number])), len(shared)

    highest = max(map(rank, numbers), default=None)
    best = [number for number in numbers if rank(number) == highest]
    different = {(_stem_of(images[n]), images[n].folder): images[n] for n in best}
    if len(different) > 1:
        first, second, *_ = different.values()
        raise InputError(
            f"{file} may be the regions of {first} and of {second}; say how files are called, such "
            "as --regions 'masks/{folder}/{name}.png'."
        )
    return best


def _stem_of(image: Pair) -> str:
    """Return an image's name without suffix; a name that was made for it has none."""
    if image.name == image.image.name:
        return _stem(image.name)
    return image.name


def _stem(name: str) -> str:
    return re.sub(r"(?i)(\.ome)?\.\w+$", "", name)


def _parts(file: Path) -> set[str]:
    """Return the stem of a file, and what it begins and ends with, cut between words."""
    stem = _stem(file.name)
    parts = {stem}
    for place in range(1, len(stem)):
        if not stem[place].isalnum():
            parts |= {stem[:place], stem[place + 1 :]}
    return parts
