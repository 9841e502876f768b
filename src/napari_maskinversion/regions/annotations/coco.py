"""COCO JSON: instances with run-length masks, categories and scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from ...base.errors import InputError
from ...base.identity import Position
from ...base.label_blocks import LARGEST
from ...base.regions import Region
from . import rle
from .annotation import Annotation, Annotations, binary_mask, place_mask
from .building import AnnotationFormat, Bounds, Box, Drawn, Geometry, Parsed, as_scalar
from .json_files import read_json, to_json_types, write_json
from .listed_images import ImageReference, ListedImage, choose_images, whole_size
from .polygons import check_crop, fill_polygons, outline, polygons_of, without_holes

UNNAMED: Final = "unlabelled"
"""Category of regions without a label: COCO requires a category."""
_PLANES: Final = 10_000  # numbers that an image has for its planes
_REGIONS: Final = 1_000_000  # and for the regions of a plane
_DIGITS: Final = 18  # of a number that all readers can hold
# Members that are not columns of the table.
_KNOWN = {"id", "image_id", "category_id", "segmentation", "bbox", "area", "score"}
_KNOWN |= {"iscrowd", "region", "attributes"}


def is_coco(page: Any) -> bool:
    """Return whether JSON content is COCO instances."""
    return isinstance(page, dict) and all(
        isinstance(page.get(name), list) for name in ("images", "annotations")
    )


class _Entry(NamedTuple):
    """An image to write: numbers of its planes and of its annotations, and more about it."""

    part: Annotations
    places: Mapping[Position, int]
    ids: Sequence[int]
    more: Mapping[str, Any] = MappingProxyType({})


def write_coco(annotations: Annotations, path: Path, *, polygons: bool = False) -> None:
    """Write COCO JSON. Each plane is a separate image with its ``position``.

    Image, annotations and categories of a COCO file keep their numbers. Masks are compressed run
    lengths; with ``polygons`` they are lists of polygons. These have no holes in COCO: a region
    with holes is cut into pieces.
    """
    places = {position: number for number, position in enumerate(annotations.planes, 1)}
    if annotations.image_id is not None and len(places) == 1:
        places = dict.fromkeys(places, annotations.image_id)
    ids: Sequence[int] = [item.region.id for item in annotations.items]
    if len(set(ids)) < len(ids):
        ids = range(1, len(ids) + 1)
    entry = _Entry(annotations, places, _source_ids(annotations.items) or ids)
    _write([entry], annotations, annotations.about, path, polygons=polygons)


def write_coco_of_many(
    parts: Iterable[tuple[int, Annotations, Mapping[str, Any]]],
    path: Path,
    *,
    polygons: bool = False,
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write the annotations of many images to one COCO file.

    Images, annotations and categories of COCO files keep their numbers, if all have one and these
    differ. Other numbers of images and annotations depend on nothing but the image's own number and
    its regions, so they stay when other images are added.
    """
    parts = list(parts)
    items = tuple(item for _, part, _ in parts for item in part.items)
    colors: dict[str, str] = {}
    category_ids: dict[str, int] = {}
    source_ids, source_images = iter(_source_ids(items)), _source_image_ids(parts)
    entries = []
    for number, part, more in parts:
        colors |= {name: colors.get(name) or color for name, color in part.colors.items()}
        for name, category in part.category_ids.items():
            if name not in category_ids and category not in category_ids.values():
                category_ids[name] = category
        places = dict.fromkeys(part.planes, number)
        if set(places) - {()}:  # planes of a stack
            places = {place: number * _PLANES + at for at, place in enumerate(sorted(places), 1)}
        regions: Sequence[int] = [item.region.id for item in part.items]
        if max(regions, default=0) >= _REGIONS:  # they would reach into numbers of another image
            regions = range(1, len(regions) + 1)
        ids = [
            next(source_ids, places[item.position] * _REGIONS + at)
            for at, item in zip(regions, part.items, strict=True)
        ]
        if source_images:
            places = dict.fromkeys(places, source_images[number])
        entries.append(_Entry(part, places, ids, more))
    words = Annotations(shape=(1, 1), items=items, colors=colors, category_ids=category_ids)
    _write(entries, words, about or {}, path, polygons=polygons)


def _write(
    entries: Sequence[_Entry],
    words: Annotations,
    about: Mapping[str, Any],
    path: Path,
    *,
    polygons: bool,
) -> None:
    numbers = _categories(words)
    images = [
        {"id": number, "file_name": part.image, "height": part.shape[0], "width": part.shape[1]}
        | ({"position": dict(position)} if position else {})
        | dict(more)
        for part, places, _, more in entries
        for position, number in places.items()
    ]
    page = {
        "info": {
            "description": "Regions named by napari-maskinversion",
            "coordinates": "pixels; (0, 0) is the outer corner of the first one, y goes down",
            **about,
        },
        "licenses": [],
        "images": images,
        "categories": [
            {"id": number, "name": name, "supercategory": ""} for name, number in numbers.items()
        ],
        "annotations": [
            {
                "id": number,
                "image_id": places[item.position],
                "category_id": numbers[item.label or UNNAMED],
                **_record(item, part.shape, polygons=polygons),
            }
            for part, places, ids, _ in entries
            for number, item in zip(ids, part.items, strict=True)
        ],
    }
    write_json(page, path, indent=None)


def _categories(annotations: Annotations) -> dict[str, int]:
    numbers = annotations.class_ids
    if any(not item.label for item in annotations.items):
        numbers.setdefault(UNNAMED, len(annotations.colors or numbers) + 1)
    own = annotations.category_ids
    if not own:
        return numbers
    free = max(own.values())
    return {name: own.get(name, free + number) for name, number in numbers.items()}


def _source_ids(items: Sequence[Annotation]) -> list[int]:
    """Return the numbers that annotations had in their file; none if not all had their own."""
    texts = [item.source_id for item in items]
    if not all(text.isascii() and text.isdigit() and len(text) <= _DIGITS for text in texts):
        return []
    ids = [int(text) for text in texts]
    return ids if len(set(ids)) == len(ids) else []


def _source_image_ids(
    parts: Sequence[tuple[int, Annotations, Mapping[str, Any]]],
) -> dict[int, int]:
    """Return the numbers that images had in their files; none if not all had their own."""
    ids = {number: part.image_id for number, part, _ in parts if set(part.planes) <= {()}}
    own = {number: one for number, one in ids.items() if one is not None}
    return own if len(set(own.values())) == len(parts) else {}


def _record(item: Annotation, shape: tuple[int, int], *, polygons: bool) -> dict[str, Any]:
    """Return what an annotation says about a region."""
    y0, x0, y1, x1 = item.region.bbox
    record: dict[str, Any] = {
        "segmentation": _outlines(item.region) if polygons else rle.encode(item.region, shape),
        "area": int(binary_mask(item.region).sum()),
        "bbox": [x0, y0, x1 - x0, y1 - y0],
        "iscrowd": 0,
        "region": item.region.id,
    }
    if item.score is not None and math.isfinite(item.score):
        record["score"] = item.score
    if item.values:
        record["attributes"] = to_json_types(item.values)
    return record


def _outlines(region: Region) -> list[list[float]]:
    return [
        np.asarray(part.exterior.coords)[:-1].ravel().tolist()
        for part in without_holes(polygons_of(outline(region)))
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CocoPage:
    """COCO JSON sorted by image, so that many images are read from it in turn."""

    listed: list[ListedImage]
    names: Mapping[Any, str]  # Of the categories, by id
    # For the key of an image: its annotations, each after what messages call it
    records: Mapping[Any, list[tuple[int, str, dict[str, Any]]]]
    notes: list[str]  # Annotations of no listed image


def sorted_by_image(page: Any, path: Path) -> CocoPage:
    """Sort the annotations of COCO JSON by image."""
    listed = listed_images(page["images"], path)
    records: dict[Any, list[tuple[int, str, dict[str, Any]]]] = {one.key: [] for one in listed}
    notes = []
    for number, record in enumerate(page["annotations"], 1):
        if not isinstance(record, dict):
            raise InputError(f"{path}, annotation {number} is not an object.")
        own, image = record.get("id"), record.get("image_id")
        where = f"{path}, annotation {own if type(own) in (int, str) else number}"
        if type(image) in (int, str) and image in records:
            records[image].append((number, where, record))
            continue
        reason = "names no image" if image is None else f"is on image {image}, which is not listed,"
        notes.append(f"{where} {reason} and was left out.")
    names = categories_of(page.get("categories"), path)
    return CocoPage(listed=listed, names=names, records=records, notes=notes)


def parse_coco(page: CocoPage, path: Path, image: ImageReference) -> Parsed:
    """Return the annotations of an image: run lengths or polygons, else boxes."""
    chosen = choose_images(page.listed, path, image)
    notes = list(page.notes)
    images = {one.key: one.position for one in chosen}
    in_order = sorted(
        (part for key in images for part in page.records[key]), key=lambda part: part[0]
    )
    objects = [
        Drawn(
            where=where,
            geometry=partial(_geometry, record, where, notes),
            label=label_in(page.names, record, where, notes),
            id=record.get("region", record.get("id")),
            position=images[record["image_id"]],
            score=record.get("score"),
            values=_values(record),
            source_id=str(record.get("id", "")),
        )
        for _, where, record in in_order
    ]
    return parsed_of(objects, chosen, page.names, notes)


def parsed_of(
    objects: Sequence[Drawn],
    chosen: Sequence[ListedImage],
    names: Mapping[Any, str],
    notes: list[str],
) -> Parsed:
    """Return objects with the numbers that the image and its categories have in the file."""
    keys = [one.key for one in chosen if type(one.key) is int and 0 <= one.key <= LARGEST]
    category_ids: dict[str, int] = {}
    for number, name in names.items():
        if name and type(number) is int and 0 <= number <= LARGEST:
            category_ids.setdefault(name, number)  # of two of one name the first counts
    return Parsed(
        objects=objects,
        images=chosen,
        notes=notes,
        colors={name: "" for name in names.values() if name not in ("", UNNAMED)},
        category_ids=category_ids,
        image_id=keys[0] if len(keys) == len(chosen) == 1 else None,
    )


def label_in(names: Mapping[Any, str], record: Mapping[str, Any], of: str, notes: list[str]) -> str:
    """Return the name of an annotation's category; "" with a note where it has none."""
    category = as_scalar(record.get("category_id"), "category", of)
    if category not in names:
        notes.append(f"{of} has category {category}, which the file does not name.")
    if record.get("iscrowd"):
        notes.append(f"{of} is a crowd: several objects in one mask, read as one region.")
    label = names.get(category, "")
    return "" if label == UNNAMED else label


def listed_images(records: list[Any], path: Path) -> list[ListedImage]:
    """Return the images of COCO JSON."""
    listed = []
    seen = set()
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or type(record.get("id")) not in (int, str):
            raise InputError(f"{path}, image {number} has no id.")
        if record["id"] in seen:
            raise InputError(
                f"{path} has two images with the id {record['id']!r}; annotations of one would go "
                "to both. Give each its own."
            )
        seen.add(record["id"])
        listed.append(
            ListedImage(
                key=record["id"],
                name=str(record.get("file_name", "")),
                size=whole_size(record.get("height"), record.get("width")),
                position=_position(record, path),
                series=series if type(series := record.get("series")) is int else None,
            )
        )
    return listed


def _position(record: dict[str, Any], path: Path) -> Position:
    position = record.get("position", {})
    if not isinstance(position, dict) or any(type(at) is not int for at in position.values()):
        raise InputError(f"{path}, image {record['id']} has an invalid position: {position}.")
    return tuple(position.items())


def categories_of(records: Any, path: Path) -> dict[Any, str]:
    """Return the names of COCO's categories by id."""
    if not isinstance(records, list) or any(
        not isinstance(record, dict) or type(record.get("id")) not in (int, str)
        for record in records
    ):
        raise InputError(f"{path} is not COCO: it has no list of categories.")
    names: dict[Any, str] = {}
    for record in records:
        name = as_scalar(record.get("name"), "name", f"{path}, category {record['id']}")
        name = str(record["id"] if name is None else name)
        if names.setdefault(record["id"], name) != name:
            raise InputError(
                f"{path} has two categories with the id {record['id']!r}: {names[record['id']]!r} "
                f"and {name!r}. Give each its own."
            )
    return names


def _geometry(record: Mapping[str, Any], where: str, notes: list[str]) -> Geometry:
    drawn = record.get("segmentation")
    if drawn or isinstance(drawn, dict):
        return _geometry_of(drawn)
    notes.append(f"{where} has no mask; its box is used instead.")
    x, y, wide, high = _numbers(record.get("bbox"), "its box", 4).tolist()
    return Box(y, x, y + high, x + wide)


def read_segmentation(region_id: int, drawn: Any, shape: tuple[int, int]) -> Region | None:
    """Return the region of run lengths or polygons; None if it has no pixel on the plane."""
    region = _geometry_of(drawn).fill(shape)
    return None if region is None else replace(region, id=region_id)


def _geometry_of(drawn: Any) -> Geometry:
    if isinstance(drawn, dict):
        return _RunLengths(drawn)
    if not isinstance(drawn, list) or not all(isinstance(part, list) for part in drawn):
        raise ValueError("its outline is not a list of polygons")
    parts = []
    for part in drawn:
        points = _numbers(part, "its outline")
        if len(points) < 6 or len(points) % 2:
            raise ValueError(f"its outline has a polygon of {len(points)} numbers")
        parts.append(points.reshape(-1, 2))
    return _Polygons(parts)


class _RunLengths(NamedTuple):
    """Run lengths of a whole plane."""

    segmentation: Mapping[str, Any]

    @property
    def bounds(self) -> Bounds:
        """Its extent."""
        height, width = _numbers(self.segmentation.get("size"), "the size of its mask", 2).tolist()
        return 0, 0, width, height

    def fill(self, shape: tuple[int, int]) -> Region | None:
        """Its pixels."""
        return rle.decode(self.segmentation, shape)


class _Polygons(NamedTuple):
    """Polygons that are filled by COCO's own tools, in a crop."""

    parts: list[Any]

    @property
    def bounds(self) -> Bounds:
        """Its extent."""
        together = np.concatenate(self.parts)
        return (*together.min(axis=0).tolist(), *together.max(axis=0).tolist())

    def fill(self, shape: tuple[int, int]) -> Region | None:
        """Its pixels."""
        from pycocotools import mask as coco_mask
        from shapely import Polygon

        x0, y0, x1, y1 = self.bounds
        # A margin of one pixel keeps the crop's edges from acting as image edges.
        x, y = math.floor(x0) - 1, math.floor(y0) - 1
        wide, high = math.ceil(x1) + 1 - x, math.ceil(y1) + 1 - y
        check_crop(high, wide)
        rings = [(part - (x, y)).ravel().tolist() for part in self.parts]
        runs = coco_mask.merge(coco_mask.frPyObjects(rings, high, wide))
        region = place_mask(0, y, x, coco_mask.decode(runs).astype(bool), shape)
        if region is None:  # tiny ones are the pixel they lie in
            with_area = [polygon for polygon in map(Polygon, self.parts) if polygon.area]
            return fill_polygons(0, with_area, shape) if with_area else None
        return region


def _numbers(values: Any, what: str, count: int | None = None) -> Any:
    if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
        raise ValueError(f"{what} is not a list of numbers")
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all() or np.abs(numbers).max(initial=0) > 1e9:
        raise ValueError(f"{what} has values that are not coordinates")
    if count is not None and len(numbers) != count:
        raise ValueError(f"{what} has {len(numbers)} numbers instead of {count}")
    return numbers


def _values(record: dict[str, Any]) -> dict[str, Any]:
    attributes = record.get("attributes")
    if isinstance(attributes, dict):
        return dict(attributes)
    return {key: value for key, value in record.items() if key not in _KNOWN}


COCO: Final = AnnotationFormat(
    name="COCO",
    suffixes=(".json",),
    content="images, annotations, categories",
    markers=((b'"annotations"', b'"images"'),),
    load=read_json,
    matches=is_coco,
    parse=parse_coco,
    prepare=sorted_by_image,
)
