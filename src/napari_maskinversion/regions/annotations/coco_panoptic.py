"""COCO panoptic: JSON with segments, and a PNG whose colours number them. Read only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.regions import Regions
from ...images.decoding import decode
from .annotation import Annotation, Annotations, as_scalar, check_not_empty
from .annotation_format import (
    AnnotationFormat,
    ImageReference,
    check_size,
    choose_images,
    note_other_image,
    size_of_images,
)
from .coco import categories_of, image_id_of, is_coco, listed_images, numbers_of
from .json_files import read_json

_MAX_ID: Final = 256**3 - 1


def is_panoptic(page: Any) -> bool:
    """Return whether JSON content is COCO panoptic."""
    return is_coco(page) and any(
        isinstance(one, dict) and "segments_info" in one for one in page["annotations"][:1]
    )


def read_panoptic(page: Any, path: Path, image: ImageReference) -> Annotations:
    """Read segments as regions; their ids are those of the file. See `AnnotationFormat.read`.

    The PNG lies in the folder of the JSON file, or in one beside it of the same name.
    """
    notes: list[str] = []
    chosen = choose_images(listed_images(page["images"], path), path, image)
    note_other_image(path, chosen[0].name, image, notes)
    shape = size_of_images(chosen, path, image.shape)
    names = categories_of(page.get("categories"), path)
    records = [
        (f"{path}, annotation {number}", record)
        for number, record in enumerate(page["annotations"], 1)
        if isinstance(record, dict) and record.get("image_id") == chosen[0].key
    ]
    check_not_empty(records, path)
    where, record = records[0]
    if len(records) > 1:
        raise InputError(f"{records[1][0]} is about the same image as {where}; keep one of them.")
    segments = record.get("segments_info")
    if not isinstance(segments, list):
        raise InputError(f"{where} is broken: its segments_info is not a list.")
    regions = _segments_of(_picture(record.get("file_name"), path, where), shape)
    items = []
    for number, segment in enumerate(segments, 1):
        of = f"{where}, segment {number}"
        value = segment.get("id") if isinstance(segment, dict) else None
        if type(value) is not int or not 0 < value <= _MAX_ID:
            raise InputError(f"{of} has no id from 1 to {_MAX_ID}.")
        region = regions.pop(value, None)
        if region is None:
            raise InputError(f"{of} ({value}) has no pixel in its picture, or is listed twice.")
        category = as_scalar(segment.get("category_id"), "category", of)
        if category not in names:
            notes.append(f"{of} has category {category}, which the file does not name.")
        if segment.get("iscrowd"):
            notes.append(f"{of} is a crowd: several objects in one mask, read as one region.")
        label = names.get(category, "")
        items.append(Annotation(region=region, label=label, source_id=str(value)))
    check_not_empty(items, path)
    if regions:
        notes.append(
            f"{where} does not list {len(regions)} of the colours of its picture; left out."
        )
    return Annotations(
        shape=shape,
        items=tuple(items),
        image=image.name,
        colors={name: "" for name in names.values() if name},
        category_ids=numbers_of(names),
        image_id=image_id_of(chosen),
        notes=tuple(notes),
    )


def _picture(name: Any, path: Path, where: str) -> Path:
    """Return the file of a picture. Folders in its name are ignored."""
    if not isinstance(name, str) or not Path(name).name:
        raise InputError(f"{where} has no file_name of a picture.")
    file = Path(name).name
    places = [folder / file for folder in (path.with_suffix(""), path.parent)]
    for place in places:
        if place.is_file():
            return place
    raise InputError(f"{where} needs the picture {file}; put it at {places[0]}.")


def _segments_of(picture: Path, shape: tuple[int, int]) -> dict[int, Any]:
    colours = decode(picture, "panoptic picture", colours=True)
    if colours.ndim != 3 or colours.shape[2] < 3 or colours.dtype != np.uint8:
        raise InputError(
            f"{picture} is not a picture of colours with 8 bits, which number segments."
        )
    check_size(picture, (colours.shape[0], colours.shape[1]), shape)
    numbers = colours[..., :3].astype(np.int64) @ np.array([1, 256, 65536])
    return {region.id: region for region in Regions.from_labels(numbers)}


COCO_PANOPTIC: Final = AnnotationFormat(
    name="COCO panoptic",
    suffixes=(".json",),
    content="images, annotations with segments_info, categories",
    markers=((b'"segments_info"', b'"images"'),),
    load=read_json,
    matches=is_panoptic,
    read=read_panoptic,
)
