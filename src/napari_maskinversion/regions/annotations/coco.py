"""COCO JSON: instances with masks as run lengths, categories and scores."""

from __future__ import annotations

import math
from collections.abc import Container
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError, ManyImagesError
from ...base.regions import Region
from . import rle
from .annotation import (
    Annotation,
    Annotations,
    Position,
    box_region,
    check_any,
    numbered,
    outside,
    place,
    same_image,
    single,
    solid,
)
from .annotation_format import AnnotationFormat, ImageReference, check_size, note_other_image
from .json_files import as_score, plain, read_json, write_json

UNNAMED: Final = "unlabelled"
"""The category of regions without a label: the format wants one for each."""
_KNOWN: Final = {"id", "image_id", "category_id", "segmentation", "bbox", "area", "score"}
_MOST_CROP: Final = 500_000_000


def is_coco(page: Any) -> bool:
    """Say whether a JSON file's content is COCO's instances."""
    return isinstance(page, dict) and all(
        isinstance(page.get(name), list) for name in ("images", "annotations")
    )


def write_coco(annotations: Annotations, path: Path) -> None:
    """Write COCO JSON. Each plane is an image of its own, its place in ``position``.

    Raises
    ------
    InputError
        If it cannot be written; what was there before stays.
    """
    height, width = annotations.shape
    labels = list(annotations.labels)
    if any(not item.label for item in annotations.items):
        labels.append(UNNAMED)
    numbers = {label: number for number, label in enumerate(labels, 1)}
    places = {position: number for number, position in enumerate(annotations.planes, 1)}
    images = [
        {"id": number, "file_name": annotations.image, "height": height, "width": width}
        | ({"position": dict(position)} if position else {})
        for position, number in places.items()
    ]
    records = []
    for number, item in enumerate(annotations.items, 1):
        y0, x0, y1, x1 = item.region.bbox
        record: dict[str, Any] = {
            "id": number,
            "image_id": places[item.position],
            "category_id": numbers[item.label or UNNAMED],
            "segmentation": rle.encode(item.region, annotations.shape),
            "area": int(solid(item.region).sum()),
            "bbox": [x0, y0, x1 - x0, y1 - y0],
            "iscrowd": 0,
            "region": item.region.id,
        }
        if item.score is not None and math.isfinite(item.score):
            record["score"] = item.score
        if item.values:
            record["attributes"] = plain(item.values)
        records.append(record)
    page = {
        "info": {
            "description": "Regions named by napari-maskinversion",
            "coordinates": "pixels; (0, 0) is the outer corner of the first one, y goes down",
            **annotations.about,
        },
        "licenses": [],
        "images": images,
        "categories": [
            {"id": number, "name": name, "supercategory": ""} for name, number in numbers.items()
        ],
        "annotations": records,
    }
    write_json(page, path, indent=None)


def read_coco(page: Any, path: Path, image: ImageReference) -> Annotations:
    """Read COCO JSON: run lengths or polygons, else boxes; see `AnnotationFormat.read`."""
    notes: list[str] = []
    images, shape = _images(page["images"], path, image, notes)
    names = _categories(page.get("categories"), path)
    records = [
        (f"{path}, annotation {_called(record, number)}", record)
        for number, record in enumerate(page["annotations"], 1)
    ]
    for where, record in records:
        if not isinstance(record, dict):
            raise InputError(f"{where} is no object.")
    listed = {record["id"] for record in page["images"]}
    notes += [_lost(where, record) for where, record in records if not _of(record, listed)]
    records = [(where, record) for where, record in records if _of(record, images)]
    check_any(records, path, notes)
    planes = [images[record["image_id"]] for _, record in records]
    ids = [single(record.get("region", record.get("id")), "id", name) for name, record in records]
    numbers = numbered(ids, planes, path, notes)
    items = []
    for (where, record), number, position in zip(records, numbers, planes, strict=True):
        region = _region(record, number, where, shape, notes)
        category = single(record.get("category_id"), "category", where)
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
            )
        )
    return Annotations(shape=shape, items=tuple(items), image=image.name, notes=tuple(notes))


def _images(
    records: list[Any], path: Path, image: ImageReference, notes: list[str]
) -> tuple[dict[Any, Position], tuple[int, int]]:
    """Planes by image id, of the image that is meant, and their size."""
    for number, record in enumerate(records, 1):
        if not isinstance(record, dict) or type(record.get("id")) not in (int, str):
            raise InputError(f"{path}, image {number} has no id.")
    shape = image.shape
    chosen = _chosen(records, path, shape, image.name)
    note_other_image(path, _name(chosen[0]), image, notes)
    for record in chosen:
        size = record.get("height"), record.get("width")
        known = all(type(side) is int and side > 0 for side in size)
        if shape is None and known:
            shape = (size[0], size[1])
        if shape is None or (not known and size not in (shape, (None, None))):
            raise InputError(
                f"{path} does not say how large its image{_quoted(record)} is: it needs a height "
                "and a width in whole pixels."
            )
        if known:
            check_size(path, size, shape)
    assert shape is not None  # one image at least was chosen
    return {record["id"]: _position(record, path) for record in chosen}, shape


def _chosen(records: list[Any], path: Path, shape: tuple[int, int] | None, image: str) -> list[Any]:
    """Records of the image that is meant: one, or its planes."""
    names = list(dict.fromkeys(map(_name, records)))
    # The whole name says more than that without folders, and this more than one without suffix.
    for known in (str.__eq__, _same_file, same_image):
        chosen = [record for record in records if image and known(_name(record), image)]
        if chosen:
            break
    if not chosen and len(names) == 1:
        chosen = records
    if not chosen:
        some = ", ".join(names[:5])
        raise ManyImagesError(
            f"{path} is about {len(names)} images ({some or 'none'}) and none of "
            f"them is called {image or 'as the image'}; one image is named at a time.",
            _fitting(records, shape),
        )
    found = list(dict.fromkeys(map(_name, chosen)))
    if len(found) > 1:
        raise ManyImagesError(
            f"{path} has {len(found)} images that may be {image} ({', '.join(found[:5])}).",
            _fitting(chosen, shape),
        )
    places = [_position(record, path) for record in chosen]
    if len(set(places)) < len(places):
        raise InputError(
            f"{path} has {len(places)} images called {found[0] or '(no name)'}; give each a name "
            "of its own."
        )
    return chosen


def _name(record: dict[str, Any]) -> str:
    return str(record.get("file_name", ""))


def _quoted(record: dict[str, Any]) -> str:
    name = _name(record)
    return f" '{name}'" if name else ""


def _same_file(one: str, other: str) -> bool:
    return Path(one).name == Path(other).name


def _fitting(records: list[Any], shape: tuple[int, int] | None) -> tuple[str, ...]:
    """Names of the images that are of a size, or do not say theirs."""
    sizes = ((record.get("height"), record.get("width")) for record in records)
    fits = [shape is None or size in (shape, (None, None)) for size in sizes]
    return tuple(dict.fromkeys(_name(r) for r, fit in zip(records, fits, strict=True) if fit))


def _position(record: dict[str, Any], path: Path) -> Position:
    position = record.get("position", {})
    if not isinstance(position, dict) or any(type(at) is not int for at in position.values()):
        raise InputError(f"{path}, image {record['id']} has a position that is none: {position}.")
    return tuple(position.items())


def _categories(records: Any, path: Path) -> dict[Any, str]:
    if not isinstance(records, list) or any(
        not isinstance(record, dict) or type(record.get("id")) not in (int, str)
        for record in records
    ):
        raise InputError(f"{path} is no COCO file: it has no list of categories.")
    return {record["id"]: str(record.get("name", record["id"])) for record in records}


def _called(record: Any, number: int) -> str:
    name = record.get("id") if isinstance(record, dict) else None
    return str(name if type(name) in (int, str) else number)


def _of(record: dict[str, Any], images: Container[Any]) -> bool:
    image = record.get("image_id")
    return type(image) in (int, str) and image in images


def _lost(where: str, record: dict[str, Any]) -> str:
    image = record.get("image_id")
    belongs = "names no image" if image is None else f"is on image {image}, which is not listed,"
    return f"{where} {belongs} and was left out."


def _region(
    record: dict[str, Any], number: int, where: str, shape: tuple[int, int], notes: list[str]
) -> Region:
    drawn = record.get("segmentation")
    if record.get("iscrowd"):
        notes.append(f"{where} is a crowd: many objects under one mask, read as one region.")
    try:
        if isinstance(drawn, dict):
            region = rle.decode(number, drawn, shape)
        elif drawn:
            region = _polygons(number, drawn, shape)
        else:
            notes.append(f"{where} has no mask; its box is the region.")
            region = _box(number, record.get("bbox"), where, shape, notes)
    except (ValueError, TypeError, OverflowError) as error:
        raise InputError(f"{where} is broken: {error}.") from None
    if region is None:
        raise outside(where, shape)
    return region


def _polygons(number: int, drawn: Any, shape: tuple[int, int]) -> Region | None:
    """Fill polygons as COCO's own tools do, in a crop of their own."""
    from pycocotools import mask as coco_mask

    if not isinstance(drawn, list) or not all(isinstance(part, list) for part in drawn):
        raise ValueError("its outline is no list of polygons")
    parts = []
    for part in drawn:
        points = _numbers(part, "its outline")
        if len(points) < 6 or len(points) % 2:
            raise ValueError(f"its outline has a polygon of {len(points)} numbers")
        parts.append(points.reshape(-1, 2))
    together = np.concatenate(parts)
    # A pixel more on each side, so that the crop's edges are not the image's.
    low = np.floor(together.min(axis=0)).astype(int) - 1
    wide, high = (np.ceil(together.max(axis=0)).astype(int) + 1 - low).tolist()
    if wide * high > _MOST_CROP:
        raise ValueError(f"its box of {high} x {wide} px is too large to be kept")
    runs = coco_mask.frPyObjects([(part - low).ravel().tolist() for part in parts], high, wide)
    mask = coco_mask.decode(coco_mask.merge(runs)).astype(bool)
    return place(number, int(low[1]), int(low[0]), mask, shape)


def _box(
    number: int, box: Any, where: str, shape: tuple[int, int], notes: list[str]
) -> Region | None:
    x, y, wide, high = _numbers(box, "its box", 4).tolist()
    return box_region(number, (y, x, y + high, x + wide), where, shape, notes)


def _numbers(values: Any, what: str, count: int | None = None) -> Any:
    if not isinstance(values, list) or any(type(value) not in (int, float) for value in values):
        raise ValueError(f"{what} is no list of numbers")
    found = np.asarray(values, dtype=np.float64)
    if not np.isfinite(found).all() or np.abs(found).max(initial=0) > 1e9:
        raise ValueError(f"{what} holds values that are no coordinates")
    if count is not None and len(found) != count:
        raise ValueError(f"{what} has {len(found)} numbers instead of {count}")
    return found


def _values(record: dict[str, Any]) -> dict[str, Any]:
    known = record.get("attributes")
    if isinstance(known, dict):
        return dict(known)
    more = {"iscrowd", "region", "attributes"}
    return {key: value for key, value in record.items() if key not in _KNOWN | more}


COCO: Final = AnnotationFormat(
    name="COCO",
    suffixes=(".json",),
    content="images, annotations, categories",
    markers=((b'"annotations"', b'"images"'),),
    load=read_json,
    matches=is_coco,
    read=read_coco,
)
