"""What a format of region files provides, and the one way from drawn objects to regions.

A format parses a file into `Drawn` objects. `build` gives all formats the same numbers, cuts and
notes: an object that cannot be read is left out with a note, and the others are read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ...base.errors import InputError, NoRegionsError
from ...base.identity import Position
from ...base.label_blocks import LARGEST
from ...base.regions import Region
from ...base.units import Georeference
from ...base.validation import composed, without_hidden
from ...base.wording import first_line
from .annotation import SCORE, Annotation, Annotations, CocoFacts, place_mask, united
from .json_files import as_score, read_json
from .listed_images import ImageReference, ListedImage, same_image, size_of_images
from .polygons import fault, fill_polygons

Bounds = tuple[float, float, float, float]  # x0, y0, x1, y1 at pixel edges
_MAX_NOTES: Final = 3  # notes shown in a refusal
_MOST_COORDINATE: Final = 1e9  # of pixels; sums of larger numbers lose the pixels
_SLACK: Final = 0.5  # pixels beyond the plane that lose no pixel's centre
_BROKEN: Final = " is broken ("  # in notes on what could not be read
_STRANGE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Box(NamedTuple):
    """A box at pixel edges; where it is thinner than a pixel, it is the pixels it lies in."""

    y0: float
    x0: float
    y1: float
    x1: float


class Outline(NamedTuple):
    """Polygons of shapely, in (x, y) at pixel edges."""

    polygons: list[Any]
    even_odd: bool = False  # Inside an odd number of them; else inside any, once they are repaired


Geometry = Box | Outline | Region
"""What an object covers; a region without a number holds pixels, also beyond the plane."""


def bounds_of(geometry: Geometry) -> Bounds:
    """Return the extent of a geometry, also beyond the plane."""
    if isinstance(geometry, Outline):
        import shapely

        x0, y0, x1, y1 = shapely.total_bounds(geometry.polygons).tolist()
        return x0, y0, x1, y1
    if isinstance(geometry, Region):
        y0, x0, y1, x1 = geometry.bbox
    else:
        y0, x0, y1, x1 = geometry
    return x0, y0, x1, y1


def fill(geometry: Geometry, shape: tuple[int, int]) -> Region | None:
    """Return a geometry's pixels on a plane, as a region without a number; None for none."""
    if isinstance(geometry, Outline):
        return fill_polygons(0, geometry.polygons, shape, even_odd=geometry.even_odd)
    if isinstance(geometry, Region):
        return place_mask(0, *geometry.bbox[:2], geometry.mask, shape)
    y0, y1 = _pixels(geometry.y0, geometry.y1, shape[0])
    x0, x1 = _pixels(geometry.x0, geometry.x1, shape[1])
    if y0 >= y1 or x0 >= x1:
        return None
    return Region(0, (y0, x0, y1, x1), np.ones((y1 - y0, x1 - x0), bool))


class LeftOut(ValueError):
    """Raised for an object that is not a region, with what it is: "is a line"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """An object as its file describes it."""

    where: str  # What messages call it: file and record
    # It may raise `LeftOut`, or a ValueError with what is wrong. Several are parts of one region.
    # None covers no pixel.
    geometry: Callable[[], Geometry | list[Geometry | None] | None]
    label: str = ""  # "" for none
    id: int | None = None  # The number that the file gives the region
    position: Position = ()  # Its plane
    score: Any = None  # None, also for what is no number
    values: Mapping[str, Any] = field(default_factory=dict)  # Attributes: other columns of a table
    source_id: str = ""  # Its id in the file, which need not be a number


def label_of(region: Region, where: str, **more: Any) -> Drawn:
    """Return an object that a label image numbers."""
    number = region.id
    return Drawn(where=where, geometry=lambda: region, id=number, source_id=str(number), **more)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a file says about one image."""

    objects: Iterable[Drawn]
    images: Sequence[ListedImage] = (ListedImage(),)  # The image; several are planes of it
    notes: list[str] = field(default_factory=list)
    geo: Georeference | None = None
    colors: Mapping[str, str] = field(default_factory=dict)
    coco: CocoFacts = field(default_factory=CocoFacts)
    coordinates: str = ""  # How they were read, for the note on an object outside the image


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationFormat:
    """A format of region files; `reading.FORMATS` lists them."""

    name: str  # As in file dialogs
    content: str  # What such a file contains, for error messages
    # A file may be of this format if its first and last bytes contain all markers of one group
    markers: tuple[tuple[bytes, ...], ...]
    matches: Callable[[Any], bool]  # Whether loaded content is of this format
    # How names of such files end, in lower case
    suffixes: tuple[str, ...] = (".json",)
    # Reads a file. Each is read once for all formats with the same function.
    load: Callable[[Path], Any] = read_json
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
    objects = iter(parsed.objects)
    first = next(objects, None)
    if first is None:
        of = ""
        if image.file:
            of = f" of {image.file}"
        raise _without_regions(f"{path} contains no region{of}.", notes)
    drawn: Iterable[tuple[Drawn, list[Geometry]]] = _geometries(chain([first], objects), notes)
    if shape is None:
        drawn = list(drawn)
        shape = _shape_around(chain.from_iterable(parts for _, parts in drawn))
        notes.append(f"{path} has no image size; {shape[0]} x {shape[1]} px contain all regions.")
    outside = ""
    if parsed.coordinates:
        outside = f" ({parsed.coordinates})"
    items: list[tuple[Drawn, Region]] = []
    areas = False
    for drawn_object, parts in drawn:
        areas = True
        with left_out(drawn_object.where, notes):
            filled = [fill(part, shape) for part in parts]
            region = united([part for part in filled if part is not None])
            if region is None:
                raise LeftOut(f"covers no pixel of the image, {shape[0]} x {shape[1]} px{outside},")
            notes += _notes_on(drawn_object.where, parts, region, shape)
            items.append((drawn_object, region))
    if not items:
        raise _without_regions(f"{path} contains no region.", notes, areas=areas)
    numbers = _numbers([drawn_object for drawn_object, _ in items], path, notes)
    words = _plain_labels(
        {*parsed.colors, *(drawn_object.label for drawn_object, _ in items)}, path, notes
    )
    annotations = []
    for (drawn_object, region), number in zip(items, numbers, strict=True):
        annotations.append(
            Annotation(
                region=replace(region, id=number),
                label=words[drawn_object.label],
                score=as_score(drawn_object.score),
                position=drawn_object.position,
                values=_with_text_score(drawn_object),
                source_id=drawn_object.source_id,
            )
        )
    return Annotations(
        shape=shape,
        items=tuple(annotations),
        image=image.name,
        geo=parsed.geo,
        colors={words[label]: color for label, color in parsed.colors.items()},
        coco=parsed.coco.renamed(words),
        notes=tuple(notes),
    )


def _without_regions(fault: str, notes: list[str], *, areas: bool = False) -> InputError:
    """Return the error for a file without regions: on purpose, unless an area or record is lost."""
    lost = areas or any(_BROKEN in note for note in notes)
    if lost:
        kind = InputError
    else:
        kind = NoRegionsError  # such as tags, points and lines alone
    return kind(" ".join([fault, *notes[:_MAX_NOTES]]))


def _with_text_score(drawn_object: Drawn) -> Mapping[str, Any]:
    """Return the attributes of an object, with a score that is no number, such as "high"."""
    if isinstance(drawn_object.score, str):
        return {**drawn_object.values, SCORE: drawn_object.score}
    return drawn_object.values


@contextmanager
def left_out(where: str, notes: list[str]) -> Iterator[None]:
    """Leave out an object that raises `LeftOut`, or whose values make no sense, with a note."""
    try:
        yield
    except LeftOut as reason:
        notes.append(f"{where} {reason} and was left out.")
    except MemoryError:  # it says nothing about the object
        raise
    except Exception as error:  # readers of other formats raise nearly anything
        notes.append(f"{where}{_BROKEN}{first_line(error)}) and was left out.")


def _geometries(
    objects: Iterable[Drawn], notes: list[str]
) -> Iterator[tuple[Drawn, list[Geometry]]]:
    """Yield objects one by one, so that at most one is held in two forms."""
    for drawn_object in objects:
        with left_out(drawn_object.where, notes):
            geometry = drawn_object.geometry()
            if isinstance(geometry, list):
                parts = geometry
            else:
                parts = [geometry]
            parts_read = [part for part in parts if part is not None]
            if any(isinstance(part, Outline) and not part.polygons for part in parts_read):
                raise ValueError("it has no area")
            if np.abs([bounds_of(part) for part in parts_read]).max(initial=0) > _MOST_COORDINATE:
                raise ValueError(f"its corners lie beyond {_MOST_COORDINATE:.0e}")
            yield drawn_object, parts_read


def _shape_around(parts: Iterable[Geometry]) -> tuple[int, int]:
    """Return the size (H, W) of a plane that contains all geometries."""
    height = width = 1.0
    for part in parts:
        _, _, x1, y1 = bounds_of(part)
        height = max(height, y1)
        width = max(width, x1)
    return math.ceil(height), math.ceil(width)


def _notes_on(
    where: str, parts: Sequence[Geometry], region: Region, shape: tuple[int, int]
) -> Iterator[str]:
    """Yield what becomes of the outlines of a region."""
    polygons: list[Any] = []
    for part in parts:
        if isinstance(part, Outline):
            polygons += part.polygons
    if region.area == 1 and polygons and sum(polygon.area for polygon in polygons) < 0.99:
        yield f"{where} is smaller than a pixel, and became one."
    for part in parts:
        if isinstance(part, Outline) and not part.even_odd and (reason := fault(part.polygons)):
            yield f"{where} was repaired: {reason}."
    for x0, y0, x1, y1 in map(bounds_of, parts):
        if min(x0, y0) < -_SLACK or x1 > shape[1] + _SLACK or y1 > shape[0] + _SLACK:
            yield f"{where} reaches beyond the image and was cut."
            return


def _numbers(objects: Sequence[Drawn], path: Path, notes: list[str]) -> list[int]:
    """Return the file's numbers if they are unique on each plane, else count from 1 with a note."""
    ids = [drawn_object.id for drawn_object in objects]
    numbers = []
    for number in ids:
        if number is not None and 0 < number <= LARGEST:
            numbers.append(number)
    if len(numbers) < len(ids):
        reason = f"not all whole numbers from 1 to {LARGEST}"
    elif len({(drawn_object.id, drawn_object.position) for drawn_object in objects}) < len(ids):
        reason = "not unique"
    else:
        return numbers
    if any(number is not None for number in ids):
        notes.insert(0, f"{path}: regions are numbered from 1, because their ids are {reason}.")
    return list(range(1, len(ids) + 1))


def _plain_labels(labels: Iterable[str], path: Path, notes: list[str]) -> dict[str, str]:
    """Return labels without signs that cannot be shown; those that look the same are the same."""
    plain = {}
    for label in labels:
        plain[label] = without_hidden(_STRANGE.sub("\N{REPLACEMENT CHARACTER}", composed(label)))
    unshowable = []
    for label, shown in plain.items():
        if shown != composed(label):
            unshowable.append(label)
    if unshowable:
        subject = f"{path}: signs that cannot be shown were replaced or left out in labels"
        notes.append(f"{subject}, such as {min(unshowable)!a}.")
    if len(set(plain.values())) < len(plain):
        alike = min(label for label, shown in plain.items() if shown != label)
        notes.append(f"{path}: labels that look the same, such as {alike!a}, are one.")
    return plain


def _pixels(start: float, stop: float, side: int) -> tuple[int, int]:
    """Return first and end of the pixels between two edges, within a side."""
    low = round(start)
    high = round(stop)
    first = max(start, 0)
    last = min(stop, side)
    if first < last and min(high, side) <= max(low, 0):  # thinner than a pixel
        low = math.floor((first + last) / 2)
        high = low + 1
    return max(low, 0), min(high, side)
