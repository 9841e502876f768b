"""COCO JSON of regions: instances with run-length masks or polygons, categories and scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.identity import Position
from ...base.regions import Region
from . import rle
from .annotation import Annotation, Annotations, binary_mask
from .coco import BROUGHT, CATEGORY, UNNAMED
from .json_files import to_json_types, write_json
from .polygons import outline, polygons_of, without_holes

_PLANES: Final = 10_000  # numbers that an image has for its planes
_REGIONS: Final = 1_000_000  # and for the regions of a plane
_DIGITS: Final = 18  # of a number that all readers can hold


Part = tuple[int | None, Annotations, Mapping[str, Any]]
PartOfMany = tuple[int, Annotations, Mapping[str, Any]]
"""An image's number, its annotations, and what else is known of it."""


def write_coco(annotations: Annotations, path: Path, *, polygons: bool = False) -> None:
    """Write COCO JSON. Each plane is a separate image with its ``position``.

    Image, annotations and categories of a COCO file keep their numbers. Masks are compressed run
    lengths; with ``polygons`` they are lists of polygons. These have no holes in COCO: a region
    with holes is cut into pieces.
    """
    _write([(None, annotations, {})], annotations.about, path, polygons=polygons)


def write_coco_of_many(
    parts: Iterable[PartOfMany],
    path: Path,
    *,
    polygons: bool = False,
) -> None:
    """Write the annotations of many images, after their numbers, to one COCO file.

    Images, annotations and categories of COCO files keep their numbers, if all have one and these
    differ. Other numbers of images and annotations depend on nothing but the image's own number and
    its regions, so they stay when other images are added.
    """
    _write(list(parts), {}, path, polygons=polygons)


def _write(parts: Sequence[Part], about: Mapping[str, Any], path: Path, *, polygons: bool) -> None:
    items: list[Annotation] = []
    for _, part, _ in parts:
        items += part.items
    colors: dict[str, str] = {}
    category_ids: dict[str, int] = {}
    above: dict[str, str] = {}
    repeated: dict[str, tuple[str, str]] = {}
    for _, part, _ in parts:
        repeated = {**part.coco.repeated, **repeated}
        above = {**part.coco.supercategories, **above}
        colors |= {name: colors.get(name) or color for name, color in part.colors.items()}
        for name, category in part.coco.category_ids.items():
            if name not in category_ids and category not in category_ids.values():
                category_ids[name] = category
    everything = Annotations(shape=(1, 1), items=tuple(items), colors=colors)
    numbers = _categories(everything, category_ids)
    taken = set(map(str, numbers.values()))
    repeated = {
        key: category for key, category in repeated.items() if key.isdigit() and key not in taken
    }
    source_ids = iter(_source_ids(items))
    image_ids = set()
    for _, part, _ in parts:
        if len(part.planes) <= 1:
            image_ids.add(part.coco.image_id)
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for number, part, more in parts:
        places, ids = _numbers(number, part)
        if None not in image_ids and len(image_ids) == len(parts):
            places = dict.fromkeys(places, part.coco.image_id or 0)
        height, width = part.shape
        for position, image in places.items():
            about_image: dict[str, Any] = {
                "id": image,
                "file_name": part.image,
                "height": height,
                "width": width,
            }
            if position:
                about_image["position"] = dict(position)
            images.append({**about_image, **more})
        for annotation_id, item in zip(ids, part.items, strict=True):
            annotations.append(
                {
                    "id": next(source_ids, annotation_id),
                    "image_id": places[item.position],
                    "category_id": _category(item, numbers, repeated),
                    **_record(item, part.shape, polygons=polygons),
                }
            )
    categories = []
    for name, number in numbers.items():
        categories.append({"id": number, "name": name, "supercategory": above.get(name, "")})
    for key, (name, heading) in repeated.items():
        categories.append({"id": int(key), "name": name, "supercategory": heading})
    brought: dict[str, None] = {}  # in the order in which regions have them
    for item in items:
        brought |= dict.fromkeys(item.values)
    page = {
        "info": {
            "description": "Regions named by napari-maskinversion",
            "coordinates": "pixels; (0, 0) is the outer corner of the first one, y goes down",
            BROUGHT: list(brought),
            **about,
        },
        "licenses": [],
        "images": images,
        "categories": categories,
        "annotations": annotations,
    }
    write_json(page, path, indent=None)


def _numbers(number: int | None, part: Annotations) -> tuple[dict[Position, int], list[int]]:
    """Return numbers of an image's planes and of its regions; None is the only image."""
    ids = [item.region.id for item in part.items]
    if number is None:
        unique = len(set(ids)) == len(ids)
        places = {position: number for number, position in enumerate(part.planes, 1)}
        return places, ids if unique else list(range(1, len(ids) + 1))
    places = dict.fromkeys(part.planes, number)
    if set(places) - {()}:  # planes of a stack
        for plane_number, position in enumerate(sorted(places), 1):
            places[position] = number * _PLANES + plane_number
    if max(ids, default=0) >= _REGIONS:  # they would reach into numbers of another image
        ids = list(range(1, len(ids) + 1))
    region_numbers = []
    for region_number, item in zip(ids, part.items, strict=True):
        region_numbers.append(places[item.position] * _REGIONS + region_number)
    return places, region_numbers


def _categories(annotations: Annotations, category_ids: Mapping[str, int]) -> dict[str, int]:
    numbers = annotations.class_ids
    if any(not item.label for item in annotations.items):
        numbers.setdefault(UNNAMED, len(annotations.colors or numbers) + 1)
    if not category_ids:
        return numbers
    free = max(category_ids.values())
    return {name: category_ids.get(name, free + number) for name, number in numbers.items()}


def _category(
    item: Annotation, numbers: Mapping[str, int], repeated: Mapping[str, tuple[str, str]]
) -> int:
    """Return the number of an item's label: its own one, where several categories have the name."""
    category = str(item.values.get(CATEGORY))
    if category in repeated and repeated[category][0] == item.label:
        return int(category)
    return numbers[item.label or UNNAMED]


def _source_ids(items: Sequence[Annotation]) -> list[int]:
    """Return the numbers that annotations had in their file; none if not all had their own."""
    texts = [item.source_id for item in items]
    if not all(text.isascii() and text.isdigit() and len(text) <= _DIGITS for text in texts):
        return []
    ids = [int(text) for text in texts]
    if len(set(ids)) == len(ids):
        return ids
    return []


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
    if item.attributes:
        record["attributes"] = to_json_types(item.attributes)
    return record


def _outlines(region: Region) -> list[list[float]]:
    parts = []
    for part in without_holes(polygons_of(outline(region))):
        parts.append(np.asarray(part.exterior.coords)[:-1].ravel().tolist())
    return parts
