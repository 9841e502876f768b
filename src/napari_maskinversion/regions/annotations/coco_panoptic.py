"""COCO panoptic: JSON with segments, and a PNG whose colours number them. Read only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.regions import Regions
from ...images.decoding import decode
from .building import AnnotationFormat, Drawn, Parsed, label_of
from .coco import categories_of, is_coco, label_in, listed_images, parsed_of
from .json_files import read_json
from .listed_images import ImageReference, check_size, choose_images, size_of_images

_MAX_ID: Final = 256**3 - 1


def is_panoptic(page: Any) -> bool:
    """Return whether JSON content is COCO panoptic."""
    return is_coco(page) and any(
        isinstance(one, dict) and "segments_info" in one for one in page["annotations"][:1]
    )


def parse_panoptic(page: Any, path: Path, image: ImageReference) -> Parsed:
    """Return segments; their ids are those of the file.

    The PNG lies in the folder of the JSON file, or in one beside it of the same name.
    """
    chosen = choose_images(listed_images(page["images"], path), path, image)
    names = categories_of(page.get("categories"), path)
    notes: list[str] = []
    records = [
        (f"{path}, annotation {number}", record)
        for number, record in enumerate(page["annotations"], 1)
        if isinstance(record, dict) and record.get("image_id") == chosen[0].key
    ]
    if len(records) > 1:
        where = f"{records[1][0]} is about the same image as {records[0][0]}"
        raise InputError(f"{where}; keep one of them.")
    objects: list[Drawn] = []
    for where, record in records:
        segments = record.get("segments_info")
        if not isinstance(segments, list):
            raise InputError(f"{where} is broken: its segments_info is not a list.")
        picture = _picture(record.get("file_name"), path, where)
        regions = _segments_of(picture, size_of_images(chosen, path, image.shape))
        for number, segment in enumerate(segments, 1):
            of = f"{where}, segment {number}"
            value = segment.get("id") if isinstance(segment, dict) else None
            if type(value) is not int or not 0 < value <= _MAX_ID:
                raise InputError(f"{of} has no id from 1 to {_MAX_ID}.")
            region = regions.pop(value, None)
            if region is None:
                raise InputError(f"{of} ({value}) has no pixel in its picture, or is listed twice.")
            objects.append(label_of(region, of, label=label_in(names, segment, of, notes)))
        if regions:
            notes.append(
                f"{where} does not list {len(regions)} of the colours of its picture; left out."
            )
    return parsed_of(objects, chosen, names, notes)


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


def _segments_of(picture: Path, shape: tuple[int, int] | None) -> dict[int, Any]:
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
    parse=parse_panoptic,
)
