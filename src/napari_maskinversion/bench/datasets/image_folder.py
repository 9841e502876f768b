"""Your own images: a folder of images, a folder of label images, and class names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ...base.errors import InputError
from ...base.reading import read_rows, read_text
from ...base.regions import Region, Regions
from ..content import content_of
from .protocol import BadRecordError, Sample, check_classes, check_template
from .reading import IMAGES, check_size, existing_folder, read_labels, read_pixels

LEAST: Final = 30  # smallest connected part that counts as a region, in pixels
COLUMNS: Final = ("image", "region", "name")


class ImageFolder:
    """Images with label images of the same name."""

    def __init__(
        self,
        images: Path,
        masks: Path,
        names: Path,
        *,
        template: str = "a photo of a {}",
        context: float | None = None,
    ) -> None:
        self.name = "folder"
        check_template(template)
        self.template, self.context = template, context
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
        if names.suffix.lower() == ".csv" or _is_table(names):
            self._rows = _table(names, self._images)
            known = sorted({name for rows in self._rows.values() for name in rows.values()})
        else:
            known = _classes(names)
        self.classes = check_classes(known, names)

    def keys(self) -> Sequence[str]:
        """Return the image names without suffix."""
        return sorted(self._images)

    def content(self, key: str) -> str:
        """See `Dataset.content`."""
        rows = None if self._rows is None else sorted(self._rows.get(key, {}).items())
        files = [files[key] for files in (self._images, self._masks) if key in files]
        return content_of(*files, rows=rows)

    def read(self, key: str) -> Sample:
        """Read an image and its regions."""
        if key not in self._masks:
            raise BadRecordError(
                f"{key}: {self._images[key].name} has no annotation, a label image {key}.png."
            )
        file = self._masks[key]
        image = read_pixels(self._images[key], key)
        labels = read_labels(file, key)
        if labels.ndim != 2:
            raise BadRecordError(
                f"{key}: {file} has colours; label images have one number a pixel."
            )
        check_size(labels.shape, image.shape, file, key)
        regions, small = self._listed(key, labels), 0
        if self._rows is None:
            regions, small = self._parts(key, labels)
        if not regions:
            least = f" of {LEAST} px or more" if small else ""
            raise BadRecordError(f"{key}: there is no region{least} in {file}.")
        places = [self.classes.index(name) for _, name in regions]
        shape = (int(labels.shape[0]), int(labels.shape[1]))
        kept = Regions(shape, [region for region, _ in regions])
        return Sample(image, kept, np.array(places), small=small)

    def _parts(self, key: str, labels: np.ndarray) -> tuple[list[tuple[Region, str]], int]:
        """Return the connected parts of each class, and how many are too small."""
        from skimage.measure import label

        values = [int(value) for value in np.unique(labels) if value]
        wrong = [value for value in values if not 0 < value <= len(self.classes)]
        if wrong:
            raise BadRecordError(
                f"{key}: {self._masks[key]} holds class {wrong[0]}, but {self._file} lists "
                f"{len(self.classes)} classes."
            )
        entries, small = [], 0
        parts = label(labels, background=0, connectivity=1)
        for region in Regions.from_labels(parts):
            if region.area < LEAST:
                small += 1
                continue
            y, x = np.argwhere(region.mask)[0] + region.bbox[:2]
            entries.append((region, self.classes[int(labels[y, x]) - 1]))
        return entries, small

    def _listed(self, key: str, labels: np.ndarray) -> list[tuple[Region, str]]:
        """Return the regions that the table names."""
        if self._rows is None:
            return []
        rows = self._rows.get(key)
        if rows is None:
            raise BadRecordError(f"{key}: {self._file} has no row for this image.")
        there = {region.id: region for region in Regions.from_labels(labels)}
        missing = [value for value in rows if value not in there]
        if missing:
            raise BadRecordError(
                f"{key}: {self._file} names region {missing[0]}, which is not in "
                f"{self._masks[key]}."
            )
        return [(there[value], name) for value, name in rows.items()]


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
    return entries


def _is_table(file: Path) -> bool:
    head = read_text(file, "list of names").split("\n", 1)[0].lower()
    return all(name in re.split(r"[,;\t]", head.strip()) for name in COLUMNS)


def _classes(file: Path) -> list[str]:
    """Read one class per line; the line number is the pixel value."""
    names = [line.strip() for line in read_text(file, "list of names").splitlines()]
    while names and not names[-1]:
        names.pop()
    if "" in names:
        number = names.index("") + 1
        raise InputError(
            f"{file}, line {number} is empty: pixels of value {number} would have no name. Remove "
            "the line, or name the class."
        )
    return names


def _table(file: Path, images: dict[str, Path]) -> dict[str, dict[int, str]]:
    rows: dict[str, dict[int, str]] = {}
    for number, row in read_rows(file, "table of names", needed=COLUMNS):
        name = row["name"]
        try:
            value = int(row["region"])
        except ValueError:
            raise InputError(
                f"{file}, line {number}: region {row['region']!r} is not a number."
            ) from None
        if not name:
            raise InputError(f"{file}, line {number}: the region has no name.")
        image = _image(row["image"], images)
        if not image:
            raise InputError(f"{file}, line {number}: the region has no image.")
        if image not in images:
            folder = next(iter(images.values())).parent
            raise InputError(
                f"{file}, line {number}: there is no image {image!r} in {folder}; remove the row, "
                f"or {name!r} would be asked among."
            )
        if rows.setdefault(image, {}).setdefault(value, name) != name:
            raise InputError(f"{file}, line {number}: region {value} of {image} has two names.")
    return rows


def _image(cell: str, images: dict[str, Path]) -> str:
    """Return an image name without suffix; the name itself may contain a dot."""
    place = Path(cell.strip())
    ending = place.suffix.lower() in IMAGES and place.name not in images
    return place.stem if ending else place.name
