"""Annotations of one image in any format: regions with labels, scores and other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
from pydantic import Field, TypeAdapter
from pydantic import dataclasses as checked

from ...base.errors import InputError
from ...base.identity import Position
from ...base.label_blocks import LARGEST, join
from ...base.regions import Region, Regions
from ...base.units import Georeference

Array = npt.NDArray[Any]

SLICE: Final = "slice"
"""The axis of ImageJ's slice numbers, which count along the only axis of a stack."""
SCORE: Final = "source_score"  # what the score in the file is, beside the attributes
GREY: Final = "#808080"
_MAX_NOTES: Final = 3  # notes shown in full
FIRST_FREE_ID: Final = 2**16
_LAST_FREE_ID: Final = 2**24  # whole numbers of float32, as which ImageJ opens 32 bits


_Number = Annotated[int, Field(ge=0, le=LARGEST)]


@checked.dataclass(frozen=True, slots=True, kw_only=True)
class CocoFacts:
    """What the COCO file of regions says about labels and image; one that is written repeats it."""

    category_ids: dict[str, _Number] = field(default_factory=dict)  # Numbers of labels
    supercategories: dict[str, str] = field(default_factory=dict)  # Of labels
    # Name and supercategory of further categories of the same names, by their numbers
    repeated: dict[str, tuple[str, str]] = field(default_factory=dict)
    image_id: _Number | None = None  # Number of the image, if it is one entry there

    @classmethod
    def among(cls, values: Mapping[str, Any]) -> Self:
        """Return the facts among other values that a record or a layer keeps."""
        return TypeAdapter(cls).validate_python(dict(values))

    @property
    def values(self) -> dict[str, Any]:
        """The facts as a record or a layer keeps them; empty for regions of other files."""
        return {name: value for name, value in asdict(self).items() if value not in ({}, None)}

    def renamed(self, words: Mapping[str, str]) -> Self:
        """Return the facts of labels that have other names now."""
        category_ids = {}
        for name, number in self.category_ids.items():
            category_ids[words.get(name, name)] = number
        supercategories = {}
        for name, heading in self.supercategories.items():
            supercategories[words.get(name, name)] = heading
        repeated = {}
        for key, (name, heading) in self.repeated.items():
            repeated[key] = (words.get(name, name), heading)
        return replace(
            self,
            category_ids=category_ids,
            supercategories=supercategories,
            repeated=repeated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """A region with its label and other values."""

    region: Region
    label: str = ""  # "" for none
    score: float | None = None
    position: Position = ()  # Plane of the region, ``(("t", 3), ("z", 12))``; empty for a 2-D image
    values: Mapping[str, Any] = field(default_factory=dict)  # Its attributes in the file
    columns: Mapping[str, Any] = field(default_factory=dict)  # Of the results table, no attributes
    source_id: str = ""  # Its id in the file; "" for none

    @property
    def brought(self) -> dict[str, Any]:
        """What a region keeps of its record in the file: its attributes and its score."""
        return {**self.values, **({} if self.score is None else {SCORE: self.score})}

    @property
    def attributes(self) -> dict[str, Any]:
        """All that is written about it: columns of the results, and its own attributes."""
        return {**self.columns, **self.values}


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Regions of one image."""

    shape: tuple[int, int]  # Pixels (H, W) of a plane
    items: tuple[Annotation, ...]
    image: str = ""  # File name of the image
    geo: Georeference | None = None
    # Colour (``#rrggbb``, or "" for none) of each label of the vocabulary, used or not
    colors: Mapping[str, str] = field(default_factory=dict)
    coco: CocoFacts = field(default_factory=CocoFacts)
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
            # Two labels of one checksum: the next number that is free.
            while number in numbers.values():
                number += 1
            numbers[label] = number
        return numbers

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
            region = replace(
                item.region, name=item.label, source_id=item.source_id, values=item.brought
            )
            planes.setdefault(item.position, []).append(region)
        return {position: Regions(self.shape, regions) for position, regions in planes.items()}

    @property
    def notes_text(self) -> str:
        """The first notes as one text for the user; "" if there are none."""
        more = len(self.notes) - _MAX_NOTES
        if more > 0:
            more_text = f" And {more} more like these."
        else:
            more_text = ""
        return " ".join(self.notes[:_MAX_NOTES]) + more_text


def color_of(annotations: Annotations, label: str) -> tuple[int, int, int]:
    """Return the colour of a label (RGB, 0..255); grey if it has none."""
    text = annotations.colors.get(label) or GREY
    red, green, blue = (int(text[place : place + 2], 16) for place in (1, 3, 5))
    return red, green, blue


def place_mask(
    region_id: int, y: int, x: int, mask: Array, shape: tuple[int, int]
) -> Region | None:
    """Crop a mask with its corner at (y, x) to a plane; None if it lies outside."""
    top = max(0, -y)
    left = max(0, -x)
    mask = mask[top : max(top, shape[0] - y), left : max(left, shape[1] - x)]
    return Region.from_mask(region_id, mask, (y + top, x + left))


def united(regions: Sequence[Region]) -> Region | None:
    """Return regions as one with the number of the first; None for none."""
    if len(regions) < 2:
        if regions:
            return regions[0]
        return None
    parts = [(region.bbox[0], region.bbox[1], region.mask) for region in regions]
    return Region(regions[0].id, *join(parts))


def binary_mask(region: Region) -> npt.NDArray[np.bool_]:
    """Return the mask of a region as bool; pixels covered by at least half count."""
    if region.mask.dtype.kind == "b":
        return region.mask
    mask = region.mask >= 0.5
    if mask.any():
        return mask
    return np.asarray(region.mask == region.mask.max())


def on_axes(
    annotations: Annotations, axes: Mapping[str, int], path: Path, image: str, channels: int = 1
) -> Annotations:
    """Return annotations with the names of an image's ``axes``, which go from names to sizes.

    Other names of as many axes mean the same ones in the same order. Slice numbers that count
    ``channels`` are no planes.
    """
    used: list[str] = []
    last = 0
    for item in annotations.items:
        for axis, number in item.position:
            last = max(last, number)
            if axis not in used:
                used.append(axis)
    if all(name in axes for name in used):
        return annotations
    long = [name for name, size in axes.items() if size > 1] or list(axes)
    names = dict(zip(used, long, strict=False))
    note = ""
    if used == [SLICE] and not long and last < channels:
        names = {}
        note = f"{path}: slice numbers count the channels of {image}."
    elif len(used) != len(long):
        raise InputError(
            f"{path} has planes along {', '.join(used)}; {image} has planes along "
            f"{', '.join(axes) or 'no axis'}. Use the image that the regions were drawn on, or "
            "save them without planes."
        )
    elif used != [SLICE]:
        pairs = ", ".join(f"{axis} are {name}" for axis, name in names.items())
        note = f"{path}: its planes along {pairs} of {image}."
    items = []
    for item in annotations.items:
        position = tuple((names[axis], number) for axis, number in item.position if axis in names)
        items.append(replace(item, position=position))
    notes = annotations.notes
    if note:
        notes = (note, *notes)
    return replace(annotations, items=tuple(items), notes=notes)
