"""COCO JSON: instances with run-length masks, categories and scores."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.identity import Position
from ...base.label_blocks import LARGEST
from ...base.regions import Region
from . import rle
from .annotation import (
    Annotation,
    Annotations,
    as_scalar,
    binary_mask,
    box_region,
    check_crop,
    check_not_empty,
    cut,
    on_image,
    place_mask,
    record_errors,
    unique_ids,
)
from .annotation_format import (
    AnnotationFormat,
    ImageReference,
    ListedImage,
    choose_images,
    note_other_image,
    size_of_images,
    whole_size,
)
from .json_files import as_score, read_json, to_json_types, write_json
from .polygons import fill_polygons, outline, polygons_of, without_holes

UNNAMED: Final = "unlabelled"
"""Category of regions without a label: COCO requires a category."""
_PLANES: Final = 10_000  # numbers that an image has for its planes
_REGIONS: Final = 1_000_000  # and for the regions of a plane
_DIGITS: Final = 18  # of a number that all readers can hold
_NOWHERE: Final = Region(0, (0, 0, 1, 1), np.ones((1, 1), bool))
# Members that are not columns of the table.
_KNOWN = {"id", "image_id", "category_id", "segmentation", "bbox", "area", "score"}
_KNOWN |= {"iscrowd", "region", "attributes"}


def is_coco(page: Any) -> bool:
    """Return whether JSON content is COCO instances."""
    return isinstance(page, dict) and all(
        isinstance(page.get(name), list) for name in ("images", "annotations")
    )


def write_coco(annotations: Annotations, path: Path, *, polygons: bool = False) -> None:
    """Write COCO JSON. Each plane is a separate image with its ``position``.

    Image, annotations and categories of a COCO file keep their numbers. Masks are compressed run
    lengths; with ``polygons`` they are lists of polygons. These have no holes in COCO: a region
    with holes is cut into pieces.
    """
    numbers = _categories(annotations)
    places = {position: number for number, position in enumerate(annotations.planes, 1)}
    if annotations.image_id is not None and len(places) == 1:
        places = dict.fromkeys(places, annotations.image_id)
    ids = _source_ids(annotations.items) or _region_ids(annotations.items)
    records = [
        _record(item, annotations.shape, number, places[item.position], numbers, polygons)
        for number, item in zip(ids, annotations.items, strict=True)
    ]
    images = _images(annotations, places)
    write_json(_page(images, records, numbers, annotations.about), path, indent=None)


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
    images: list[dict[str, Any]] = []
    records: list[dict[str, Any]] = []
    items: list[Annotation] = []
    classes: dict[str, str] = {}  # colour by name
    own: dict[str, int] = {}
    used: dict[str, None] = {}
    for number, part, more in parts:
        classes |= {name: classes.get(name) or color for name, color in part.colors.items()}
        for name, category in part.category_ids.items():
            if name not in own and category not in own.values():
                own[name] = category
        used |= dict.fromkeys(item.label for item in part.items)
        items += part.items
        places = dict.fromkeys(part.planes, number)
        if set(places) - {()}:  # planes of a stack
            places = {place: number * _PLANES + at for at, place in enumerate(sorted(places), 1)}
        images += [{**image, **more} for image in _images(part, places)]
        ids: Sequence[int] = [item.region.id for item in part.items]
        if max(ids, default=0) >= _REGIONS:  # they would reach into the numbers of another image
            ids = range(1, len(ids) + 1)
        for at, item in zip(ids, part.items, strict=True):
            place = places[item.position]
            number_here = place * _REGIONS + at
            # Categories are numbered at the end: other images may have other words.
            records.append(_record(item, part.shape, number_here, place, None, polygons))
    kinds = tuple(Annotation(region=_NOWHERE, label=label) for label in used)
    words = Annotations(shape=(1, 1), items=kinds, colors=classes, category_ids=own)
    numbers = _categories(words)
    for record, number in zip(records, _source_ids(items), strict=False):
        record["id"] = number
    image_ids = _source_image_ids(parts)
    for image in images:
        image["id"] = image_ids.get(image["id"], image["id"])
    for record in records:
        record["category_id"] = numbers[record["category_id"]]
        record["image_id"] = image_ids.get(record["image_id"], record["image_id"])
    write_json(_page(images, records, numbers, about or {}), path, indent=None)


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


def _region_ids(items: Sequence[Annotation]) -> Sequence[int]:
    """Return the numbers of the regions, if they differ; else count."""
    ids = [item.region.id for item in items]
    return ids if len(set(ids)) == len(ids) else range(1, len(ids) + 1)


def _images(annotations: Annotations, places: Mapping[Position, int]) -> list[dict[str, Any]]:
    height, width = annotations.shape
    return [
        {"id": number, "file_name": annotations.image, "height": height, "width": width}
        | ({"position": dict(position)} if position else {})
        for position, number in places.items()
    ]


def _record(
    item: Annotation,
    shape: tuple[int, int],
    number: int,
    place: int,
    numbers: Mapping[str, int] | None,
    polygons: bool,
) -> dict[str, Any]:
    """Return an annotation; without ``numbers`` its category is the name."""
    y0, x0, y1, x1 = item.region.bbox
    name = item.label or UNNAMED
    record: dict[str, Any] = {
        "id": number,
        "image_id": place,
        "category_id": name if numbers is None else numbers[name],
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


def _page(
    images: Sequence[Any], records: Sequence[Any], numbers: Mapping[str, int], about: Any
) -> dict[str, Any]:
    return {
        "info": {
            "description": "Regions named by napari-maskinversion",
            "coordinates": "pixels; (0, 0) is the outer corner of the first one, y goes down",
            **about,
        },
        "licenses": [],
        "images": list(images),
        "categories": [
            {"id": number, "name": name, "supercategory": ""} for name, number in numbers.items()
        ],
        "annotations": list(records),
    }


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
        where = f"{path}, annotation {_record_id(record, number)}"
        if not isinstance(record, dict):
            raise InputError(f"{where} is not an object.")
        if _of(record, records):
            records[record["image_id"]].append((number, where, record))
        else:
            notes.append(_no_image(where, record))
    names = categories_of(page.get("categories"), path)
    return CocoPage(listed=listed, names=names, records=records, notes=notes)


def read_coco(page: CocoPage, path: Path, image: ImageReference) -> Annotations:
    """Read COCO JSON: run lengths or polygons, else boxes; see `AnnotationFormat.read`."""
    notes: list[str] = []
    chosen = choose_images(page.listed, path, image)
    note_other_image(path, chosen[0].name, image, notes)
    shape = size_of_images(chosen, path, image.shape)
    images = {one.key: one.position for one in chosen}
    names = page.names
    notes += page.notes
    in_order = sorted(
        (part for key in images for part in page.records[key]), key=lambda part: part[0]
    )
    records = [(where, record) for _, where, record in in_order]
    check_not_empty(records, path, notes)
    planes = [images[record["image_id"]] for _, record in records]
    ids = [
        as_scalar(record.get("region", record.get("id")), "id", name) for name, record in records
    ]
    numbers = unique_ids(ids, planes, path, notes)
    items = []
    for (where, record), number, position in zip(records, numbers, planes, strict=True):
        region = _region(record, number, where, shape, notes)
        category = as_scalar(record.get("category_id"), "category", where)
        if category not in names:
            notes.append(f"{where} has category {category}, which the file does not name.")
        label = names.get(category, "")
        items.append(
            Annotation(
                region=region,
                label="" if label == UNNAMED else label,
                score=as_score(record.get("score")),
                position=position,
                values=_values(record),
                source_id=str(record.get("id", "")),
            )
        )
    return Annotations(
        shape=shape,
        items=tuple(items),
        image=image.name,
        colors={name: "" for name in names.values() if name not in ("", UNNAMED)},
        category_ids=numbers_of(names),
        image_id=image_id_of(chosen),
        notes=tuple(notes),
    )


def image_id_of(chosen: Sequence[ListedImage]) -> int | None:
    """Return the number of an image that is one entry of its file; None if it has none."""
    keys = [one.key for one in chosen if type(one.key) is int and 0 <= one.key <= LARGEST]
    return keys[0] if len(keys) == len(chosen) == 1 else None


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


def numbers_of(names: Mapping[Any, str]) -> dict[str, int]:
    """Return the numbers of categories by name; of two categories of one name the first counts."""
    numbers: dict[str, int] = {}
    for number, name in names.items():
        if name and type(number) is int and 0 <= number <= LARGEST:
            numbers.setdefault(name, number)
    return numbers


def _record_id(record: Any, number: int) -> str:
    name = record.get("id") if isinstance(record, dict) else None
    return str(name if type(name) in (int, str) else number)


def _of(record: dict[str, Any], images: Container[Any]) -> bool:
    image = record.get("image_id")
    return type(image) in (int, str) and image in images


def _no_image(where: str, record: dict[str, Any]) -> str:
    image = record.get("image_id")
    reason = "names no image" if image is None else f"is on image {image}, which is not listed,"
    return f"{where} {reason} and was left out."


def _region(
    record: dict[str, Any], number: int, where: str, shape: tuple[int, int], notes: list[str]
) -> Region:
    drawn = record.get("segmentation")
    if record.get("iscrowd"):
        notes.append(f"{where} is a crowd: several objects in one mask, read as one region.")
    with record_errors(where):
        if drawn or isinstance(drawn, dict):
            region = read_segmentation(number, drawn, shape)
            if region is not None and isinstance(drawn, list) and _exceed(drawn, shape):
                notes.append(cut(where))
        else:
            notes.append(f"{where} has no mask; its box is used instead.")
            region = _box(number, record.get("bbox"), where, shape, notes)
    return on_image(region, where, shape)


def read_segmentation(region_id: int, drawn: Any, shape: tuple[int, int]) -> Region | None:
    """Return the region of run lengths or polygons; None if it has no pixel on the plane."""
    if isinstance(drawn, dict):
        return rle.decode(region_id, drawn, shape)
    return _polygons(region_id, drawn, shape)


def _polygons(number: int, drawn: Any, shape: tuple[int, int]) -> Region | None:
    """Fill polygons with COCO's own tools, in a crop; tiny ones are the pixel they lie in."""
    from pycocotools import mask as coco_mask
    from shapely import Polygon

    if not isinstance(drawn, list) or not all(isinstance(part, list) for part in drawn):
        raise ValueError("its outline is not a list of polygons")
    parts = []
    for part in drawn:
        points = _numbers(part, "its outline")
        if len(points) < 6 or len(points) % 2:
            raise ValueError(f"its outline has a polygon of {len(points)} numbers")
        parts.append(points.reshape(-1, 2))
    together = np.concatenate(parts)
    # A margin of one pixel keeps the crop's edges from acting as image edges.
    low = np.floor(together.min(axis=0)).astype(int) - 1
    wide, high = (np.ceil(together.max(axis=0)).astype(int) + 1 - low).tolist()
    check_crop(high, wide)
    runs = coco_mask.frPyObjects([(part - low).ravel().tolist() for part in parts], high, wide)
    mask = coco_mask.decode(coco_mask.merge(runs)).astype(bool)
    region = place_mask(number, int(low[1]), int(low[0]), mask, shape)
    if region is None:
        with_area = [polygon for polygon in map(Polygon, parts) if polygon.area]
        return fill_polygons(number, with_area, shape) if with_area else None
    return region


def _exceed(drawn: list[Any], shape: tuple[int, int]) -> bool:
    """Return whether polygons extend beyond a plane, by more than their rounding."""
    points = np.concatenate([np.reshape(part, (-1, 2)) for part in drawn])
    return bool((points < -0.5).any() or (points > np.add(shape[::-1], 0.5)).any())


def _box(
    number: int, box: Any, where: str, shape: tuple[int, int], notes: list[str]
) -> Region | None:
    x, y, wide, high = _numbers(box, "its box", 4).tolist()
    return box_region(number, (y, x, y + high, x + wide), where, shape, notes)


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
    read=read_coco,
    prepare=sorted_by_image,
)
