"""labelme's JSON: polygons, rectangles, circles and masks of one image. Read only."""

from __future__ import annotations

import binascii
from base64 import b64decode
from functools import partial
from io import BytesIO
from math import hypot
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...images.decoding import open_picture
from .building import (
    AnnotationFormat,
    Drawn,
    Geometry,
    LeftOut,
    Mask,
    Outline,
    Parsed,
    as_scalar,
    record_errors,
)
from .json_files import read_json
from .listed_images import ImageReference, ListedImage, whole_size
from .polygons import check_crop, ellipse, polygons_of, ring

_POLYGONS: Final = ("polygon", "oriented_rectangle", "rotation")
_NO_AREA: Final = ("point", "points", "line", "linestrip")
_MAX_COORDINATE: Final = 1e9


def is_labelme(page: Any) -> bool:
    """Return whether JSON content is labelme's."""
    return (
        isinstance(page, dict)
        and isinstance(page.get("shapes"), list)
        and any(name in page for name in ("imagePath", "imageHeight", "imageData"))
    )


def parse_labelme(page: Any, path: Path, image: ImageReference) -> Parsed:
    """Return the shapes of a file; those of the same label and group are parts of one region."""
    groups: dict[Any, list[tuple[str, str, Any]]] = {}
    for number, record in enumerate(page["shapes"], 1):
        where = f"{path}, shape {number}"
        if not isinstance(record, dict):
            raise InputError(f"{where} is not an object.")
        label = str(as_scalar(record.get("label"), "label", where) or "").strip()
        where += f" ({label})" if label else ""
        group = as_scalar(record.get("group_id"), "group", where)
        area = group is not None and record.get("shape_type") not in _NO_AREA
        groups.setdefault((label, group) if area else number, []).append((where, label, record))
    objects = [
        Drawn(where=parts[0][0], geometry=partial(_geometries, parts), label=parts[0][1])
        for parts in groups.values()
    ]
    name = page.get("imagePath")
    listed = ListedImage(
        name=name if isinstance(name, str) else "",
        size=whole_size(page.get("imageHeight"), page.get("imageWidth")),
    )
    return Parsed(objects=objects, images=[listed])


def _geometries(parts: list[tuple[str, str, Any]]) -> list[Geometry]:
    geometries = []
    for where, _, record in parts:
        with record_errors(where):
            geometries.append(_geometry(record))
    return geometries


def _geometry(record: Any) -> Geometry:
    from shapely import MultiPoint

    kind = record.get("shape_type") or "polygon"
    if kind in _NO_AREA:
        raise LeftOut(f"is a {kind}")
    if kind == "mask":
        return _mask(record)
    if kind == "rectangle":
        points = _points(record)
        if len(points) not in (2, 4):
            raise ValueError(
                f"it has {len(points)} points, and a rectangle has 2 or 4 corners; save it as a "
                "polygon"
            )
        # Other programs write all corners, also of turned rectangles.
        outline = ring(points) if len(points) == 4 else MultiPoint(points).envelope
        return Outline(polygons_of(outline))
    if kind == "circle":
        (x, y), edge = _points(record, 2)
        radius = float(hypot(edge[0] - x, edge[1] - y))
        return Outline([ellipse(x, y, radius, radius)])
    if kind in _POLYGONS:
        return Outline([ring(_points(record))])
    raise ValueError(f"its shape_type is {kind!r}; save it as a polygon")


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


def _mask(record: Any) -> Mask:
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
            return Mask(y0, x0, np.asarray(picture.convert("L")) > 0)
    except (binascii.Error, UnidentifiedImageError, OSError, SyntaxError):
        raise ValueError("its mask is not a PNG in base64") from None
    except Image.DecompressionBombError:
        raise ValueError("its mask is too large") from None


LABELME: Final = AnnotationFormat(
    name="labelme",
    suffixes=(".json",),
    content="shapes, imagePath",
    markers=((b'"shapes"', b'"imageHeight"'), (b'"shapes"', b'"imagePath"')),
    load=read_json,
    matches=is_labelme,
    parse=parse_labelme,
)
