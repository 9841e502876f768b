"""What a format of region files provides, and the one way from drawn objects to regions.

A format parses a file into `Drawn` objects; `build` gives all formats the same numbers, cuts, notes
and refusals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from ...base.errors import EmptyMaskError, InputError
from ...base.identity import Position
from ...base.label_blocks import LARGEST
from ...base.regions import Region
from ...base.units import Georeference
from .annotation import Annotation, Annotations, Array, place_mask, united
from .json_files import as_score
from .listed_images import ImageReference, ListedImage, same_image, size_of_images
from .polygons import fault, fill_polygons

Bounds = tuple[float, float, float, float]  # x0, y0, x1, y1 at pixel edges
_MAX_NOTES: Final = 3  # notes shown in a refusal
_MOST_COORDINATE: Final = 1e9  # of pixels; sums of larger numbers lose the pixels
_SLACK: Final = 0.5  # pixels beyond the plane that lose no pixel's centre


class Geometry(Protocol):
    """What an object covers."""

    @property
    def bounds(self) -> Bounds:
        """Its extent, also beyond the plane."""

    def fill(self, shape: tuple[int, int]) -> Region | None:
        """Return its pixels on a plane, as a region without a number; None if there are none."""


class Box(NamedTuple):
    """A box at pixel edges; where it is thinner than a pixel, it is the pixels it lies in."""

    y0: float
    x0: float
    y1: float
    x1: float

    @property
    def bounds(self) -> Bounds:
        """Its extent."""
        return self.x0, self.y0, self.x1, self.y1

    def fill(self, shape: tuple[int, int]) -> Region | None:
        """Its pixels."""
        y0, y1 = _pixels(self.y0, self.y1, shape[0])
        x0, x1 = _pixels(self.x0, self.x1, shape[1])
        if y0 >= y1 or x0 >= x1:
            return None
        return Region(0, (y0, x0, y1, x1), np.ones((y1 - y0, x1 - x0), bool))


class Mask(NamedTuple):
    """Pixels, the first one at (y, x) of the plane."""

    y: int
    x: int
    pixels: Array

    @property
    def bounds(self) -> Bounds:
        """Its extent."""
        height, width = self.pixels.shape
        return self.x, self.y, self.x + width, self.y + height

    def fill(self, shape: tuple[int, int]) -> Region | None:
        """Its pixels."""
        return place_mask(0, self.y, self.x, self.pixels, shape)


class Outline(NamedTuple):
    """Polygons of shapely, in (x, y) at pixel edges."""

    polygons: list[Any]
    even_odd: bool = False  # Inside an odd number of them; else inside any, once they are repaired

    @property
    def bounds(self) -> Bounds:
        """Its extent."""
        low, high = np.array([one.bounds for one in self.polygons]).reshape(-1, 2, 2).swapaxes(0, 1)
        return (*low.min(0).tolist(), *high.max(0).tolist())

    def fill(self, shape: tuple[int, int]) -> Region | None:
        """Its pixels."""
        return fill_polygons(0, self.polygons, shape, even_odd=self.even_odd)

    def check(self, where: str, notes: list[str]) -> None:
        """Refuse what has no area, and note what is wrong with the polygons."""
        if not self.polygons:
            raise ValueError("it has no area")
        if any(np.abs(one.bounds).max(initial=0) > _MOST_COORDINATE for one in self.polygons):
            raise ValueError(f"its corners lie beyond {_MOST_COORDINATE:.0e}")
        if not self.even_odd and (reason := fault(self.polygons)):
            notes.append(f"{where} was repaired: {reason}.")


class LeftOut(Exception):
    """Raised for an object that is no region, with what it is: "is a line"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """An object as its file describes it."""

    where: str  # What messages call it: file and record
    # Called where errors name the record: it may raise ValueError, or `LeftOut`. Several geometries
    # are parts of one region.
    geometry: Callable[[], Geometry | list[Any]]
    label: str = ""  # "" for none
    id: Any = None  # The number that the file gives the region; None for none
    position: Position = ()  # Its plane
    score: Any = None  # None, also for what is no number
    values: Mapping[str, Any] = field(default_factory=dict)  # Attributes: other columns of a table
    source_id: str = ""  # Its id in the file, which need not be a number


def label_of(region: Region, where: str, **more: Any) -> Drawn:
    """Return an object that a label image numbers."""
    mask = Mask(*region.bbox[:2], region.mask)
    return Drawn(where=where, geometry=lambda: mask, id=region.id, source_id=str(region.id), **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a file says about one image."""

    objects: Iterable[Drawn]
    images: Sequence[ListedImage] = (ListedImage(),)  # The image; several are planes of it
    notes: list[str] = field(default_factory=list)
    geo: Georeference | None = None
    colors: Mapping[str, str] = field(default_factory=dict)
    category_ids: Mapping[str, int] = field(default_factory=dict)
    image_id: int | None = None
    hint: str = ""  # Added to the refusal of an object outside the image


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationFormat:
    """A format of region files; `reading.FORMATS` lists them."""

    name: str  # As in file dialogs
    suffixes: tuple[str, ...]  # How names of such files end, in lower case
    content: str  # What such a file contains, for error messages
    # A file may be of this format if its first and last bytes contain all markers of one group
    markers: tuple[tuple[bytes, ...], ...]
    # Reads a file: `read_json`, `read_xml` or another. Each file is read once for all formats with
    # the same function.
    load: Callable[[Path], Any]
    matches: Callable[[Any], bool]  # Whether loaded content is of this format
    # Takes what ``prepare`` returned, the path (for messages) and the image
    parse: Callable[[Any, Path, ImageReference], Parsed]
    # Takes the loaded content and the path. It is called once for a file that many images are read
    # from.
    prepare: Callable[[Any, Path], Any] = lambda content, _: content
    # Whether napari's *File > Open* reads such files; napari.yaml lists their endings. False if
    # they need an image to be read.
    in_viewer: bool = True
    shared: bool = False  # Whether label images have such names, too; then the markers decide


def build(parsed: Parsed, path: Path, image: ImageReference) -> Annotations:
    """Make regions of drawn objects, numbered as in the file or from 1."""
    notes = parsed.notes
    name = parsed.images[0].name
    if image.name and name and not same_image(name, image.name):
        notes.insert(0, f"{path} says it is about {name}, and the image is {image.file}.")
    shape = size_of_images(parsed.images, path, image.shape)
    drawn: Iterable[tuple[Drawn, list[Geometry]]] = _geometries(parsed.objects, notes)
    if shape is None:
        drawn = list(drawn)
        shape = _shape_around(drawn)
        notes.append(f"{path} has no image size; {shape[0]} x {shape[1]} px contain all regions.")
    items = []
    for one, parts in drawn:
        with record_errors(one.where):
            region = _fill(parts, one.where, shape, notes)
        if region is None:
            raise EmptyMaskError(
                f"{one.where} covers no pixel of the image ({shape[0]} x {shape[1]} px); remove it "
                f"from the file, or use the image it was drawn on.{parsed.hint}"
            )
        items.append((one, region))
    if not items:
        raise InputError(" ".join([f"{path} contains no region.", *notes[:_MAX_NOTES]]))
    numbers = _numbers([one for one, _ in items], path, notes)
    return Annotations(
        shape=shape,
        items=tuple(
            Annotation(
                region=replace(region, id=number),
                label=one.label,
                score=as_score(one.score),
                position=one.position,
                values=one.values,
                source_id=one.source_id,
            )
            for (one, region), number in zip(items, numbers, strict=True)
        ),
        image=image.name,
        geo=parsed.geo,
        colors=parsed.colors,
        category_ids=parsed.category_ids,
        image_id=parsed.image_id,
        notes=tuple(notes),
    )


def _geometries(
    objects: Iterable[Drawn], notes: list[str]
) -> Iterator[tuple[Drawn, list[Geometry]]]:
    """Yield objects one by one, so that no more than one is held in two forms."""
    for one in objects:
        try:
            with record_errors(one.where):
                geometry = one.geometry()
        except LeftOut as reason:
            notes.append(f"{one.where} {reason} and was left out; regions are areas.")
        else:
            yield one, geometry if isinstance(geometry, list) else [geometry]


def _shape_around(drawn: Sequence[tuple[Drawn, list[Geometry]]]) -> tuple[int, int]:
    """Return the size (H, W) of a plane that contains all geometries."""
    height = width = 1
    for one, parts in drawn:
        with record_errors(one.where):
            for _, _, x, y in (part.bounds for part in parts):
                height, width = max(height, math.ceil(y)), max(width, math.ceil(x))
    return height, width


def _fill(
    parts: Sequence[Geometry], where: str, shape: tuple[int, int], notes: list[str]
) -> Region | None:
    """Return the union of an object's parts, cut at the plane with a note."""
    for part in parts:
        if isinstance(part, Outline):
            part.check(where, notes)
    filled = [region for part in parts if (region := part.fill(shape)) is not None]
    if not filled:
        return None
    for x0, y0, x1, y1 in (part.bounds for part in parts):
        if min(x0, y0) < -_SLACK or x1 > shape[1] + _SLACK or y1 > shape[0] + _SLACK:
            notes.append(f"{where} reaches beyond the image and was cut.")
            break
    return united(filled)


def _numbers(objects: Sequence[Drawn], path: Path, notes: list[str]) -> list[int]:
    """Return the file's numbers if they are unique on each plane, else count from 1 with a note."""
    ids = [as_scalar(one.id, "id", one.where) for one in objects]
    if all(type(value) is int and 0 < value <= LARGEST for value in ids):
        if len({(value, one.position) for value, one in zip(ids, objects, strict=True)}) == len(
            ids
        ):
            return ids
        reason = "not unique"
    else:
        reason = f"not all whole numbers from 1 to {LARGEST}"
    if any(value is not None for value in ids):
        notes.insert(0, f"{path}: regions are numbered from 1, because their ids are {reason}.")
    return list(range(1, len(ids) + 1))


def _pixels(start: float, stop: float, side: int) -> tuple[int, int]:
    """Return first and end of the pixels between two edges, within a side."""
    low, high = round(start), round(stop)
    first, last = max(start, 0), min(stop, side)
    if first < last and min(high, side) <= max(low, 0):  # thinner than a pixel
        low = math.floor((first + last) / 2)
        high = low + 1
    return max(low, 0), min(high, side)


@contextmanager
def record_errors(record: str) -> Iterator[None]:
    """Turn errors about the values of a record into an `InputError` that names it."""
    try:
        yield
    except InputError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{record} is broken: {error}.") from None


def as_scalar(value: Any, what: str, record: str) -> Any:
    """Return a number, text or None."""
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "an object"
        raise InputError(f"{record} is broken: its {what} is {kind}, not a number or text.")
    return value


def first_line(error: Exception) -> str:
    """Return what an error of a library says, for a message of ours."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
