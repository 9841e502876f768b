"""Your own images: a folder of images, a folder of label images, and class names."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...base.errors import InputError
from ...base.reading import read_rows, read_text
from ...base.regions import Region, Regions
from .base import BadRecordError, Dataset, Sample, assemble, check_classes, check_size, read_labels
from .registry import existing_folder

IMAGES: Final = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
LEAST: Final = 30  # smallest connected part that counts as a region, in pixels
COLUMNS: Final = ("image", "region", "name")


class ImageFolder(Dataset):
    """Images with label images of the same name."""

    def __init__(
        self, images: Path, masks: Path, names: Path, *, template: str = Dataset.template
    ) -> None:
        self.name = "folder"
        check_template(template)
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
        if names.suffix.lower() == ".csv" or _is_table(names):
            self._rows = _table(names, self._images)
            known = sorted({name for rows in self._rows.values() for name in rows.values()})
        else:
            known = _classes(names)
        self.classes = check_classes(known, names)

    def _annotation(self, key: str) -> tuple[list[Path], dict[str, Any]]:
        rows = None if self._rows is None else sorted(self._rows.get(key, {}).items())
        return [self._masks[key]] if key in self._masks else [], {"rows": rows}

    def _sample(self, key: str, image: NDArray[Any]) -> Sample:
        if key not in self._masks:
            raise BadRecordError(
                f"{key}: {self._images[key].name} has no annotation, a label image {key}.png."
            )
        file = self._masks[key]
        labels = read_labels(file, key, colours="label images have one number a pixel")
        check_size(labels.shape, image.shape, file, key)
        drawn = self._parts(key, labels) if self._rows is None else self._listed(key, labels)
        sample = assemble(image, drawn)
        if not len(sample.regions):
            least = f" of {LEAST} px or more" if sample.small else ""
            raise BadRecordError(f"{key}: there is no region{least} in {file}.")
        return sample

    def _parts(self, key: str, labels: NDArray[Any]) -> list[tuple[Region | None, int]]:
        """Return the connected parts of each class; None for those that are too small."""
        from skimage.measure import label

        wrong = np.setdiff1d(labels, range(len(self.classes) + 1))
        if len(wrong):
            raise BadRecordError(
                f"{key}: {self._masks[key]} holds class {wrong[0]}, but {self._file} lists "
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
        missing = [value for value in rows if value not in there]
        if missing:
            raise BadRecordError(
                f"{key}: {self._file} names region {missing[0]}, which is not in "
                f"{self._masks[key]}."
            )
        return [(there[value], self.classes.index(name)) for value, name in rows.items()]


def check_template(template: str) -> None:
    """Refuse a prompt without exactly one ``{}`` for the class, or with other braces."""
    if template.count("{}") != 1 or re.search("[{}]", template.replace("{}", "")):
        raise InputError(
            f"--template needs {{}} where the class stands, once, and no other braces; got "
            f"{template!r}."
        )


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


def _is_table(file: Path) -> bool:
    head = read_text(file, "list of names").split("\n", 1)[0].lower()
    return all(name in re.split(r"[,;\t]", head.strip()) for name in COLUMNS)


def _classes(file: Path) -> list[str]:
    """Read one class per line; the line number is the pixel value."""
    names = [line.strip() for line in read_text(file, "list of names").rstrip().splitlines()]
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
        where, name = f"{file}, line {number}", row["name"]
        empty = next((column for column in ("image", "name") if not row[column]), "")
        if empty:
            raise InputError(f"{where}: the region has no {empty}.")
        try:
            value = int(row["region"])
        except ValueError:
            raise InputError(f"{where}: region {row['region']!r} is not a number.") from None
        image = _image(row["image"], images)
        if image not in images:
            folder = next(iter(images.values())).parent
            raise InputError(
                f"{where}: there is no image {image!r} in {folder}; remove the row, or {name!r} "
                "would be asked among."
            )
        if rows.setdefault(image, {}).setdefault(value, name) != name:
            raise InputError(f"{where}: region {value} of {image} has two names.")
    return rows


def _image(cell: str, images: dict[str, Path]) -> str:
    """Return an image name without suffix; the name itself may contain a dot."""
    place = Path(cell)
    ending = place.suffix.lower() in IMAGES and place.name not in images
    return place.stem if ending else place.name
