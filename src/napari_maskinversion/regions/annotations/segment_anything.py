"""Masks as Segment Anything's own scripts write them: a list of amg.py, or a file of SA-1B."""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.regions import Region
from .annotation_building import AnnotationFormat, Drawn, Geometry, Parsed
from .coco import Instance, ListedRecord, geometry_of
from .json_files import Loose, Name
from .listed_images import ImageReference, ListedImage, whole_size


class _Mask(Instance):
    class_name: Loose[Name] = None  # Of Grounded SAM


_NO_VALUES: Final = ("id", "area", "score")


def is_segment_anything(page: Any) -> bool:
    """Return whether JSON content is masks of one image, without categories."""
    records = _records(page)
    is_list = isinstance(page, list)
    about = not is_list and isinstance(page, dict) and ("image" in page or "image_path" in page)
    masks = []
    for mask in records:
        if isinstance(mask, dict) and "segmentation" in mask:
            masks.append(mask)
    if not records:  # no mask was found
        return page == [] or (about and isinstance(page.get("annotations"), list))
    return bool(masks) and (about or (is_list and "image_id" not in masks[0]))


def _records(page: Any) -> list[Any]:
    if isinstance(page, dict):
        records = page.get("annotations")
    else:
        records = page
    if isinstance(records, list):
        return records
    return []


def parse_segment_anything(page: Any, path: Path, image: ImageReference) -> Parsed:
    """Return the masks; the IoU that the model predicted is an attribute."""
    notes: list[str] = []
    if isinstance(page, dict):
        head = page
    else:
        head = {}
    about = ListedRecord.of(head.get("image"))
    size = whole_size(about.height, about.width)
    size = size or whole_size(head.get("img_height"), head.get("img_width"))
    masks = []
    for record in _records(page):
        masks.append((_Mask.of(record), record if isinstance(record, dict) else {}))
    own_sizes = (getattr(mask.segmentation, "size", None) for mask, _ in masks)
    sizes = Counter(size for size in own_sizes if size is not None)
    size = size or max(sizes, key=sizes.__getitem__, default=None)  # one of another is left out
    objects = []
    for number, (mask, members) in enumerate(masks, 1):
        where = f"{path}, mask {number}"
        drawn = members.get("segmentation")
        numbers = {}
        for key, value in members.items():
            if type(value) in (int, float):
                numbers[key] = value
        objects.append(
            Drawn(
                where=where,
                geometry=partial(_geometry, drawn, mask, where, image.shape or size, notes),
                label=str(mask.class_name or ""),
                id=mask.id if isinstance(mask.id, int) else None,
                score=mask.score,
                values={key: value for key, value in numbers.items() if key not in _NO_VALUES},
                source_id="" if mask.id is None else str(mask.id),
            )
        )
    name = about.file_name or str(head.get("image_path") or "")
    listed = ListedImage(name=name, size=size)
    return Parsed(objects=objects, images=[listed], notes=notes)


def _geometry(
    drawn: Any, record: _Mask, where: str, shape: tuple[int, int] | None, notes: list[str]
) -> Geometry | None:
    rows = None
    if isinstance(drawn, list) and drawn:
        rows = drawn[0]
    if isinstance(rows, list) and rows and isinstance(rows[0], bool):  # a mask in full
        return Region.from_mask(0, np.array(drawn, bool))
    return geometry_of(record, where, shape, notes)


SEGMENT_ANYTHING: Final = AnnotationFormat(
    name="Segment Anything",
    content="masks with predicted_iou",
    markers=((b'"segmentation"', b'"predicted_iou"'),),
    matches=is_segment_anything,
    parse=parse_segment_anything,
)
