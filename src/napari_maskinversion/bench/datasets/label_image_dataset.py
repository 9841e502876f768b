"""Data sets whose masks are pictures: your own folders, Pascal VOC, Pascal Context, Open Images."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.reading import check_file, read_rows, read_text
from ...base.regions import Region, Regions
from .dataset import (
    BadRecordError,
    Dataset,
    Sample,
    assemble,
    check_classes,
    check_size,
    check_there,
    class_regions,
    opening,
    read_labels,
    read_lines,
)
from .registry import DatasetSpec, existing_folder

IMAGES: Final = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
LEAST: Final = 30  # smallest connected part that counts as a region, in pixels
COLUMNS: Final = ("image", "region", "name")
VOC: Final = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("dining table", "dog", "horse", "motorbike", "person", "potted plant", "sheep", "sofa"),
    *("train", "tv monitor"),
)
VOID: Final = 255  # borders and what is too hard to tell
# The list of the 59 classes of Context spells three of them unlike the list of all labels.
_SPELLED: Final = {"diningtable": "table", "bedcloth": "bedclothes", "clothes": "cloth"}
_READABLE: Final = {
    "diningtable": "dining table",
    "pottedplant": "potted plant",
    "tvmonitor": "tv monitor",
    "bedcloth": "bed clothes",
    "bedclothes": "bed clothes",
}
_MOST_MAP: Final = 2**28  # bytes of a label map
_MOST_TABLE: Final = 2**31  # bytes

# -- your own images --------------------------------------------------------------------------


class ImageFolder(Dataset):
    """A folder of images and a folder of label images of the same names, with names of classes."""

    def __init__(
        self, images: Path, masks: Path, names: Path, *, template: str = Dataset.template
    ) -> None:
        if template.count("{}") != 1 or re.search("[{}]", template.replace("{}", "")):
            raise InputError(
                "--template needs {} where the class stands, once, and no other braces; got "
                f"{template!r}."
            )
        self.name = "folder"
        self.template = template
        self._images = _files(existing_folder(images, "--images"))
        self._masks = _files(existing_folder(masks, "--masks"))
        self._file = names
        if not self._images:
            raise InputError(f"{images} holds no images ({', '.join(IMAGES)}).")
        if not set(self._images) & set(self._masks):
            first = next(iter(self._images))
            raise InputError(
                f"No image of {images} has a label image of its name in {masks}, such as "
                f"{first}.png."
            )
        self._rows: dict[str, dict[int, str]] | None = None
        head = re.split(r"[,;\t]", read_text(names, "list of names").lower().partition("\n")[0])
        if names.suffix.lower() == ".csv" or {*COLUMNS} <= {cell.strip() for cell in head}:
            self._rows = _rows(names, self._images)
            class_names = sorted(
                set(chain.from_iterable(rows.values() for rows in self._rows.values()))
            )
        else:
            class_names = _classes(names)
        self.classes = check_classes(class_names, names)

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        if self._rows is None:
            rows = None
        else:
            rows = sorted(self._rows.get(key, {}).items())
        return [self._masks[key]] if key in self._masks else [], {"rows": rows}

    def _sample(self, key: str, image: NDArray[Any]) -> Sample:
        if key not in self._masks:
            raise BadRecordError(
                f"{key}: {self._images[key].name} has no annotation, a label image {key}.png."
            )
        file = self._masks[key]
        labels = read_labels(file, key, colours="label images have one number a pixel")
        check_size(labels.shape, image.shape, file, key)
        if self._rows is None:
            drawn = self._parts(key, labels)
        else:
            drawn = self._listed(key, labels)
        sample = assemble(image, drawn)
        if not len(sample.regions):
            least = ""
            if sample.small:
                least = f" of {LEAST} px or more"
            raise BadRecordError(f"{key}: there is no region{least} in {file}.")
        return sample

    def _parts(self, key: str, labels: NDArray[Any]) -> list[tuple[Region | None, int]]:
        """Return the connected parts of each class; None for those that are too small."""
        from skimage.measure import label

        unlisted = np.setdiff1d(labels, range(len(self.classes) + 1))
        if len(unlisted):
            raise BadRecordError(
                f"{key}: {self._masks[key]} holds class {unlisted[0]}, but {self._file} lists "
                f"{len(self.classes)} classes."
            )
        drawn: list[tuple[Region | None, int]] = []
        for region in Regions.from_labels(label(labels, background=0, connectivity=1)):
            y, x = np.argwhere(region.mask)[0] + region.bbox[:2]
            drawn.append((region if region.area >= LEAST else None, int(labels[y, x]) - 1))
        return drawn

    def _listed(self, key: str, labels: NDArray[Any]) -> list[tuple[Region | None, int]]:
        """Return the regions that the table names."""
        rows = (self._rows or {}).get(key)
        if rows is None:
            raise BadRecordError(f"{key}: {self._file} has no row for this image.")
        there = {region.id: region for region in Regions.from_labels(labels)}
        for value in rows:
            if value not in there:
                raise BadRecordError(
                    f"{key}: {self._file} names region {value}, which is not in {self._masks[key]}."
                )
        return [(there[value], self.classes.index(name)) for value, name in rows.items()]


def _files(folder: Path) -> dict[str, Path]:
    entries: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        if file.suffix.lower() not in IMAGES or file.name.startswith("."):
            continue
        other = entries.setdefault(file.stem, file)
        if other is not file:
            raise InputError(
                f"{folder} holds both {other.name} and {file.name}; images are known by their "
                "names without ending, so rename one of them."
            )
    return dict(sorted(entries.items()))


def _classes(file: Path) -> list[str]:
    """Read one class per line; the line number is the pixel value."""
    names = []
    for line in read_text(file, "list of names").rstrip().splitlines():
        names.append(line.strip())
    if "" in names:
        number = names.index("") + 1
        raise InputError(
            f"{file}, line {number} is empty: pixels of value {number} would have no name. Remove "
            "the line, or name the class."
        )
    return names


def _rows(file: Path, images: dict[str, Path]) -> dict[str, dict[int, str]]:
    """Read a table of names: those of the regions by image."""
    rows: dict[str, dict[int, str]] = {}
    for number, row in read_rows(file, "table of names", needed=COLUMNS):
        where = f"{file}, line {number}"
        name = row["name"]
        place = Path(row["image"])
        empty = next((column for column in ("image", "name") if not row[column]), "")
        if empty:
            raise InputError(f"{where}: the region has no {empty}.")
        try:
            value = int(row["region"])
        except ValueError:
            raise InputError(f"{where}: region {row['region']!r} is not a number.") from None
        # A name may itself contain a dot.
        ending = place.suffix.lower() in IMAGES and place.name not in images
        image = place.stem if ending else place.name
        if image not in images:
            folder = next(iter(images.values())).parent
            raise InputError(
                f"{where}: there is no image {image!r} in {folder}; remove the row, or {name!r} "
                "would be asked among."
            )
        if rows.setdefault(image, {}).setdefault(value, name) != name:
            raise InputError(f"{where}: region {value} of {image} has two names.")
    return rows


# -- Pascal VOC and Context -------------------------------------------------------------------


class _ClassMaps(Dataset):
    """One region for each class in an image; the list of the split names the images."""

    def _find(
        self, parts: dict[str, tuple[Path, ...]], masks: str, ending: str, title: str
    ) -> None:
        keys = sorted(set(read_lines(parts["list of images"][0], "list of images")))
        self._images = {key: parts["images"][0] / f"{key}.jpg" for key in keys}
        self._maps = {key: parts[masks][0] / f"{key}{ending}" for key in keys}
        check_there(list(self._images.values()), "images", title)
        check_there(list(self._maps.values()), masks, title)


class PascalVoc(_ClassMaps):
    """The archive ``VOCtrainval_11-May-2012.tar``, unpacked."""

    def __init__(self, data: Path, split: str, spec: DatasetSpec) -> None:
        self.name = f"voc {split}"
        self.classes = VOC[:19] if spec.name == "voc-19" else VOC
        self._find(spec.locate(data, split), "masks", ".png", spec.title)

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        return [self._maps[key]], {}

    def _sample(self, key: str, image: NDArray[Any]) -> Sample:
        """Return the classes in an image; there may be none of those that are measured."""
        file = self._maps[key]
        values = read_labels(file, key, colours="its palette numbers the classes")
        check_size(values.shape, image.shape, file, key)
        unknown = np.setdiff1d(values, [*range(len(VOC) + 1), VOID])
        if len(unknown):
            raise BadRecordError(
                f"{key}: {file} holds class {unknown[0]}; Pascal VOC 2012 has {len(VOC)}."
            )
        return class_regions(image, np.where(values <= len(self.classes), values, 0))


class PascalContext(_ClassMaps):
    """The label maps ``trainval/*.mat`` with two lists of names, and the images of VOC 2010.

    The maps have 459 labels; the classes are the 59 of ``59_labels.txt``, and pixels of other
    labels belong to no region.
    """

    def __init__(self, data: Path, split: str, spec: DatasetSpec) -> None:
        self.name = f"context {split}"
        parts = spec.locate(data, split)
        every = parts["names of all labels"][0]
        few = parts["names of the 59 classes"][0]
        numbers = {name: number for number, name in _numbered(every).items()}
        names = list(_numbered(few).values())
        self._places = np.zeros(max(numbers.values()) + 1, np.int64)
        for place, name in enumerate(names, 1):
            if name in numbers:
                spelled = name
            else:
                spelled = _SPELLED.get(name, name)
            if spelled not in numbers:
                raise InputError(f"{few} names the class {name!r}, which {every} does not list.")
            self._places[numbers[spelled]] = place
        self.classes = check_classes([_READABLE.get(name, name) for name in names], few)
        self._find(parts, "label maps", ".mat", spec.title)

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        return [self._maps[key]], {"places": self._places.tolist()}

    def _sample(self, key: str, image: NDArray[Any]) -> Sample:
        """Return the classes in an image; there may be none of the 59."""
        from scipy.io import loadmat

        file = self._maps[key]
        with opening(file, key, "annotation"):
            check_file(file, "label map", most=_MOST_MAP)
            labels = loadmat(file, variable_names=["LabelMap"])["LabelMap"]
        check_size(labels.shape, image.shape, file, key)
        return class_regions(image, self._places[labels])


def _numbered(file: Path) -> dict[int, str]:
    """Read lines such as ``1: accordion``; without spaces in names, where the lists differ."""
    names = {}
    for line in read_lines(file, "list of names"):
        number, colon, name = line.partition(":")
        if not (colon and name.strip() and number.strip().isdecimal()):
            raise InputError(f"{file} has the line {line[:80]!r}; its lines are like '1: name'.")
        names[int(number)] = name.replace(" ", "")
    return names


# -- Open Images ------------------------------------------------------------------------------


class OpenImages(Dataset):
    """``openimages/`` with the images and masks of a split, its table, and the names of classes.

    Masks may have another resolution than their image; they are brought to the image's.
    """

    def __init__(self, data: Path, split: str, spec: DatasetSpec) -> None:
        self.name = f"openimages {split}"
        parts = spec.locate(data, split)
        codes = parts["classes"][0]
        described = parts["names of classes"][0]
        places = {}
        for place, code in enumerate(read_lines(codes, "list of classes")):
            places[code] = place
        names = _table(described, ["LabelName", "DisplayName"], header=None)
        words = dict(zip(names["LabelName"], names["DisplayName"], strict=True))
        unnamed = [code for code in places if code not in words]
        if unnamed:
            raise InputError(f"{described} has no name of class {unnamed[0]}, as {codes} has.")
        self.classes = check_classes([words[code] for code in places], described)
        file = parts["annotations"][0]
        columns = ["MaskPath", "ImageID", "LabelName"]
        pictures = _files_by_name(parts["images"])
        masks = _files_by_name(parts["masks"])
        # By image: the files of its masks, and their labels
        self._masks: dict[str, list[tuple[Path, int]]] = {}
        rows = _table(file, columns)[columns].itertuples(index=False)
        for line, (name, image, code) in enumerate(rows, 2):
            if code not in places:
                raise InputError(f"{file}, line {line}: class {code!r} is not in {codes.name}.")
            mask = masks.get(name, parts["masks"][0] / name)
            self._masks.setdefault(image, []).append((mask, places[code]))
        self._images = {
            key: pictures.get(f"{key}.jpg", parts["images"][0] / f"{key}.jpg")
            for key in sorted(self._masks)
        }
        every = []
        for masks_of_image in self._masks.values():
            every += [mask for mask, _ in masks_of_image]
        check_there(list(self._images.values()), "images", spec.title)
        check_there(every, "masks", spec.title)

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        rows = self._masks[key]
        described = [{"file": mask.name, "label": label} for mask, label in rows]
        return [mask for mask, _ in rows], {"rows": described}

    def _sample(self, key: str, image: NDArray[Any]) -> Sample:
        shape = (int(image.shape[0]), int(image.shape[1]))
        drawn = []
        for number, (file, label) in enumerate(self._masks[key], 1):
            drawn.append((Region.from_mask(number, _mask(file, shape, key)), label))
        return assemble(image, drawn)


def _mask(file: Path, shape: tuple[int, int], key: str) -> NDArray[np.bool_]:
    """Read a mask and bring it to the resolution of its image."""
    from PIL import Image

    mask = np.asarray(read_labels(file, key, colours="a mask is black and white") > 0)
    if mask.shape == shape:
        return mask
    scale = mask.shape[1] / shape[1]
    if abs(shape[0] * scale - mask.shape[0]) > 1 + scale:  # sides are rounded
        check_size(mask.shape, shape, file, key)
    resized = Image.fromarray(mask).resize(shape[::-1], Image.Resampling.NEAREST)
    return np.asarray(resized, bool)


def _files_by_name(folders: Iterable[Path]) -> dict[str, Path]:
    return {file.name: file for folder in folders for file in folder.iterdir()}


def _table(file: Path, columns: list[str], **how: Any) -> pd.DataFrame:
    """Read columns of a CSV file as texts; with ``header=None`` they are in this order."""
    check_file(file, "table", most=_MOST_TABLE)
    names = None
    if how:
        names = columns
    try:
        table: pd.DataFrame = pd.read_csv(
            file, usecols=columns, names=names, dtype=str, keep_default_na=False, **how
        )
    except (ValueError, OSError) as error:  # pandas' own errors are ValueErrors
        why = str(error).splitlines()[0]
        raise InputError(f"{file} cannot be read as a table: {why}.") from None
    return table
