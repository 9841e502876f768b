"""Annotations of one image in any format: regions with labels, scores and other values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ...base.errors import EmptyMaskError, InputError
from ...base.identity import Position
from ...base.regions import Region, Regions
from ...base.units import Georeference
from ...base.validation import composed

Array = npt.NDArray[Any]

COCO_NUMBERS: Final = (CATEGORY_IDS := "category_ids", IMAGE_ID := "image_id")
"""Where records keep the numbers that labels and the image have in the COCO file of the regions."""
GREY: Final = "#808080"
_MAX_NOTES: Final = 3  # notes shown in full
_MAX_CROP: Final = 500_000_000  # pixels
_MAX_ID: Final = 2**31 - 1  # of a Labels layer
FIRST_FREE_ID: Final = 2**16
_LAST_FREE_ID: Final = 2**24  # whole numbers of float32, as which ImageJ opens 32 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A region with its label and other values."""

    region: Region
    label: str = ""  # "" for none
    score: float | None = None
    position: Position = ()  # Plane of the region, ``(("t", 3), ("z", 12))``; empty for a 2-D image
    values: Mapping[str, Any] = field(default_factory=dict)  # The other columns of the table
    source_id: str = ""  # Its id in the file; "" for none


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Regions of one image."""

    shape: tuple[int, int]  # Pixels (H, W) of a plane
    items: tuple[Annotation, ...]
    image: str = ""  # File name of the image
    geo: Georeference | None = None
    # Colour (``#rrggbb``, or "" for none) of each label of the vocabulary, used or not
    colors: Mapping[str, str] = field(default_factory=dict)
    # Numbers that labels have in a COCO file; empty for regions of other files
    category_ids: Mapping[str, int] = field(default_factory=dict)
    image_id: int | None = None  # Number of the image in a COCO file, if it is one entry there
    about: Mapping[str, Any] = field(default_factory=dict)  # Provenance, written to the file
    notes: tuple[str, ...] = ()  # What a reader changed or left out; names the record

    @property
    def labels(self) -> tuple[str, ...]:
        """Each label once: all of the vocabulary, in its order, then others that are used.

        Their places are the same for all images of one vocabulary.
        """
        return tuple(self.vocabulary)

    @property
    def class_ids(self) -> dict[str, int]:
        """A number of each of the `labels`, the same in the files of all images of one vocabulary.

        Words of the vocabulary count from 1. Other words, which a review can add, depend on their
        letters alone and lie above `FIRST_FREE_ID`; without a vocabulary they count too.
        """
        numbers = {label: number for number, label in enumerate(self.labels, 1)}
        for label in self.labels[len(self.colors) :] if self.colors else ():
            letters = label.encode("utf-8", "surrogatepass")
            number = FIRST_FREE_ID + crc32(letters) % (_LAST_FREE_ID - FIRST_FREE_ID)
            while number in numbers.values():
                number += 1
            numbers[label] = number
        return numbers

    @property
    def coco_numbers(self) -> dict[str, Any]:
        """Numbers in a COCO file by `COCO_NUMBERS`; empty for regions of other files."""
        numbers = {CATEGORY_IDS: dict(self.category_ids), IMAGE_ID: self.image_id}
        return {name: value for name, value in numbers.items() if value not in ({}, None)}

    @property
    def vocabulary(self) -> dict[str, str]:
        """The colour of each of the `labels`; "" for none."""
        used = (item.label for item in self.items if item.label)
        return {label: self.colors.get(label, "") for label in (*self.colors, *used)}

    @property
    def planes(self) -> dict[Position, Regions]:
        """Regions by plane with their names, in the order in which planes first appear."""
        planes: dict[Position, list[Region]] = {}
        for item in self.items:
            region = replace(item.region, name=item.label, source_id=item.source_id)
            planes.setdefault(item.position, []).append(region)
        return {position: Regions(self.shape, regions) for position, regions in planes.items()}

    @property
    def notes_text(self) -> str:
        """The first notes as one text for the user; "" if there are none."""
        more = len(self.notes) - _MAX_NOTES
        rest = f" And {more} more like these." if more > 0 else ""
        return " ".join(self.notes[:_MAX_NOTES]) + rest


def color_of(annotations: Annotations, label: str) -> tuple[int, int, int]:
    """Return the colour of a label (RGB, 0..255); grey if it has none."""
    text = annotations.colors.get(label) or GREY
    red, green, blue = (int(text[place : place + 2], 16) for place in (1, 3, 5))
    return red, green, blue


def place_mask(
    region_id: int, y: int, x: int, mask: Array, shape: tuple[int, int]
) -> Region | None:
    """Crop a mask with its corner at (y, x) to a plane; None if it lies outside."""
    top, left = max(0, -y), max(0, -x)
    mask = mask[top : max(top, shape[0] - y), left : max(left, shape[1] - x)]
    return Region.from_mask(region_id, mask, (y + top, x + left))


def box_region(
    number: int,
    box: tuple[float, float, float, float],
    where: str,
    shape: tuple[int, int],
    notes: list[str],
) -> Region | None:
    """Make a region of a box ``(y0, x0, y1, x1)`` at pixel edges; None if it lies outside.

    A box that is thinner than a pixel becomes the pixels it lies in. Adds a note if the image cuts
    the box.
    """
    (top, bottom), (left, right) = (
        _pixels(box[axis], box[axis + 2], shape[axis]) for axis in (0, 1)
    )
    edges = [top, left, bottom, right]
    sides = [*shape, *shape]
    y0, x0, y1, x1 = (min(max(edge, 0), side) for edge, side in zip(edges, sides, strict=True))
    if y0 >= y1 or x0 >= x1:
        return None
    if any(not 0 <= round(edge) <= side for edge, side in zip(box, sides, strict=True)):
        notes.append(cut(where))
    return Region(number, (y0, x0, y1, x1), np.ones((y1 - y0, x1 - x0), bool))


def _pixels(start: float, stop: float, side: int) -> tuple[int, int]:
    low, high = round(start), round(stop)
    first, last = max(start, 0), min(stop, side)
    if first < last and min(high, side) <= max(low, 0):
        low = math.floor((first + last) / 2)
        high = low + 1
    return low, high


def cut(where: str) -> str:
    """Return the note on a region that the image cuts."""
    return f"{where} reaches beyond the image and was cut."


def binary_mask(region: Region) -> npt.NDArray[np.bool_]:
    """Return the mask of a region as bool; pixels covered by at least half count."""
    if region.mask.dtype.kind == "b":
        return region.mask
    mask = region.mask >= 0.5
    return mask if mask.any() else np.asarray(region.mask == region.mask.max())


def same_image(one: str, other: str) -> bool:
    """Return whether two names mean the same file, ignoring folders and a missing suffix."""
    first, second = (PurePosixPath(composed(name).replace("\\", "/")) for name in (one, other))
    if first.suffix and second.suffix:
        return first.name == second.name
    return first.name == second.name or first.stem == second.stem


@contextmanager
def record_errors(record: str) -> Iterator[None]:
    """Turn errors about the values of a record into an `InputError` that names it."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{record} is broken: {error}.") from None


def check_crop(height: int, width: int) -> None:
    """Refuse the box of a mask that is too large to be filled; raises ValueError."""
    if height * width > _MAX_CROP:
        raise ValueError(f"its box of {height} x {width} px is too large")


def on_image(region: Region | None, record: str, shape: tuple[int, int]) -> Region:
    """Return a region; raises `misses_image` if it is None."""
    if region is None:
        raise misses_image(record, shape)
    return region


def misses_image(record: str, shape: tuple[int, int]) -> EmptyMaskError:
    """Return the error for a region outside the image."""
    return EmptyMaskError(
        f"{record} covers no pixel of the image ({shape[0]} x {shape[1]} px); remove it from the "
        "file, or use the image it was drawn on."
    )


def unique_ids(
    ids: Sequence[Any], planes: Sequence[Position], path: Path, notes: list[str]
) -> list[int]:
    """Return the file's ids if they are unique on each plane, else count from 1 with a note."""
    if all(type(value) is int and 0 < value <= _MAX_ID for value in ids):
        if len(set(zip(ids, planes, strict=True))) == len(ids):
            return list(ids)
        reason = "not unique"
    else:
        reason = f"not all whole numbers from 1 to {_MAX_ID}"
    if any(value is not None for value in ids):
        notes.append(f"{path}: regions are numbered from 1, because their ids are {reason}.")
    return list(range(1, len(ids) + 1))


def as_scalar(value: Any, what: str, record: str) -> Any:
    """Return a number, text or None."""
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "an object"
        raise InputError(f"{record} is broken: its {what} is {kind}, not a number or text.")
    return value


def check_not_empty(items: Sequence[Any], path: Path, notes: Sequence[str] = ()) -> None:
    """Refuse a file without regions."""
    if not items:
        raise InputError(" ".join([f"{path} contains no region.", *notes[:_MAX_NOTES]]))
