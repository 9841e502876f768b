"""labelme's JSON: polygons, rectangles, circles and masks of one image. Read only."""

from __future__ import annotations

import binascii
from base64 import b64decode
from io import BytesIO
from math import hypot
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.label_blocks import join
from ...base.regions import Region
from ...images.decoding import open_picture
from .annotation import (
    Annotation,
    Annotations,
    as_scalar,
    check_crop,
    check_not_empty,
    on_image,
    place_mask,
    record_errors,
)
from .annotation_format import (
    AnnotationFormat,
    ImageReference,
    ListedImage,
    note_other_image,
    size_of_images,
    whole_size,
)
from .json_files import read_json
from .polygons import draw_region, polygons_of, ring

_POLYGONS: Final = ("polygon", "oriented_rectangle", "rotation")
_NO_AREA: Final = ("point", "points", "line", "linestrip")
_MAX_COORDINATE: Final = 1e9
_QUARTER: Final = 64  # edges of a quarter of a circle


def is_labelme(page: Any) -> bool:
    """Return whether JSON content is labelme's."""
    return (
        isinstance(page, dict)
        and isinstance(page.get("shapes"), list)
        and any(name in page for name in ("imagePath", "imageHeight", "imageData"))
    )


def read_labelme(page: Any, path: Path, image: ImageReference) -> Annotations:
    """Read shapes as regions, counted from 1; see `AnnotationFormat.read`.

    Shapes of the same label and group are parts of one region.
    """
    notes: list[str] = []
    name = page.get("imagePath")
    name = name if isinstance(name, str) else ""
    note_other_image(path, name, image, notes)
    size = whole_size(page.get("imageHeight"), page.get("imageWidth"))
    shape = size_of_images([ListedImage(key=0, name=name, size=size)], path, image.shape)
    groups: dict[Any, list[tuple[str, str, Any]]] = {}
    for number, record in enumerate(page["shapes"], 1):
        where = f"{path}, shape {number}"
        if not isinstance(record, dict):
            raise InputError(f"{where} is not an object.")
        label = str(as_scalar(record.get("label"), "label", where) or "").strip()
        where += f" ({label})" if label else ""
        if record.get("shape_type") in _NO_AREA:
            kind = record["shape_type"]
            notes.append(f"{where} is a {kind} and was left out; regions are areas.")
            continue
        group = as_scalar(record.get("group_id"), "group", where)
        key = number if group is None else (label, group)
        groups.setdefault(key, []).append((where, label, record))
    items = []
    for number, parts in enumerate(groups.values(), 1):
        where, label, _ = parts[0]
        region = _region(number, [(at, record) for at, _, record in parts], shape, notes)
        items.append(Annotation(region=region, label=label))
    check_not_empty(items, path, notes)
    return Annotations(shape=shape, items=tuple(items), image=image.name, notes=tuple(notes))


def _region(
    number: int, parts: list[tuple[str, Any]], shape: tuple[int, int], notes: list[str]
) -> Region:
    """Return the union of shapes."""
    regions = [_part(number, record, where, shape, notes) for where, record in parts]
    if len(regions) == 1:
        return regions[0]
    box, mask = join([(region.bbox[0], region.bbox[1], region.mask) for region in regions])
    return Region(number, box, mask)


def _part(number: int, record: Any, where: str, shape: tuple[int, int], notes: list[str]) -> Region:
    from shapely import MultiPoint, Point

    kind = record.get("shape_type") or "polygon"
    with record_errors(where):
        if kind == "mask":
            region = _mask(number, record, shape)
        elif kind == "rectangle":
            points = _points(record)
            if len(points) not in (2, 4):
                raise ValueError(
                    f"it has {len(points)} points, and a rectangle has 2 or 4 corners; save it as "
                    "a polygon"
                )
            # Other programs write all corners, also of turned rectangles.
            outline = ring(points) if len(points) == 4 else MultiPoint(points).envelope
            polygons = polygons_of(outline)
            if not polygons:
                raise ValueError("it has no area")
            region = draw_region(number, polygons, where, shape, notes)
        elif kind == "circle":
            (x, y), edge = _points(record, 2)
            radius = float(hypot(edge[0] - x, edge[1] - y))
            if not radius:
                raise ValueError("its radius is 0")
            disc = Point(x, y).buffer(radius, quad_segs=_QUARTER)
            region = draw_region(number, [disc], where, shape, notes)
        elif kind in _POLYGONS:
            region = draw_region(number, [ring(_points(record))], where, shape, notes)
        else:
            raise ValueError(f"its shape_type is {kind!r}; save it as a polygon")
    return on_image(region, where, shape)


def _points(record: Any, count: int | None = None) -> npt.NDArray[np.float64]:
    points = record.get("points")
    if not isinstance(points, list) or not all(
        isinstance(point, list)
        and len(point) == 2
        and all(type(value) in (int, float) and abs(value) < _MAX_COORDINATE for value in point)
        for point in points
    ):
        raise ValueError("its points are not pairs of coordinates")
    if count is not None and len(points) != count:
        raise ValueError(f"it has {len(points)} points instead of {count}")
    return np.asarray(points, np.float64)


def _mask(number: int, record: Any, shape: tuple[int, int]) -> Region | None:
    """Decode a mask: a PNG in base64, with its first and last pixel as points."""
    from PIL import Image, UnidentifiedImageError

    (x0, y0), (x1, y1) = _points(record, 2).astype(int).tolist()
    check_crop(y1 - y0 + 1, x1 - x0 + 1)
    try:
        data = b64decode(str(record.get("mask")).encode(), validate=True)
        with open_picture(BytesIO(data), ("PNG",)) as picture:
            size, box = picture.size[::-1], (y1 - y0 + 1, x1 - x0 + 1)
            if size != box:
                raise ValueError(f"its mask has {size} px (height, width), its box {box}")
            mask = np.asarray(picture.convert("L")) > 0
    except (binascii.Error, UnidentifiedImageError, OSError, SyntaxError):
        raise ValueError("its mask is not a PNG in base64") from None
    except Image.DecompressionBombError:
        raise ValueError("its mask is too large") from None
    return place_mask(number, y0, x0, mask, shape)


LABELME: Final = AnnotationFormat(
    name="labelme",
    suffixes=(".json",),
    content="shapes, imagePath",
    markers=((b'"shapes"', b'"imageHeight"'), (b'"shapes"', b'"imagePath"')),
    load=read_json,
    matches=is_labelme,
    read=read_labelme,
)
