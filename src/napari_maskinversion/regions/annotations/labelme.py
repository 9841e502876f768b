"""labelme's JSON: polygons, rectangles, circles and masks of one image. Read only."""

from __future__ import annotations

from base64 import b64decode
from functools import partial
from io import BytesIO
from math import hypot
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import FiniteFloat

from ...base.regions import Region
from ...images.decoding import open_picture
from .annotation_building import AnnotationFormat, Drawn, Geometry, LeftOut, Outline, Parsed
from .json_files import Id, Loose, Name, Record
from .listed_images import ImageReference, ListedImage, whole_size
from .polygons import check_crop, ellipse, polygons_of, ring

_POLYGONS: Final = ("polygon", "oriented_rectangle", "rotation")
_NO_AREA: Final = ("point", "points", "line", "linestrip")


class _Page(Record):
    shapes: list[Any]
    imagePath: Loose[str] = None  # noqa: N815 - labelme's names
    imageHeight: Loose[int] = None  # noqa: N815
    imageWidth: Loose[int] = None  # noqa: N815


class _Shape(Record):
    label: Loose[Name] = None
    group_id: Loose[Id] = None
    shape_type: Loose[str] = None
    points: Loose[list[tuple[FiniteFloat, FiniteFloat]]] = None
    mask: Loose[str] = None
    score: Any = None  # Of X-AnyLabeling

    @property
    def values(self) -> dict[str, Any]:
        """Flags, description, group and other values that programs write, if they are set."""
        members = {**(self.model_extra or {}), "group_id": self.group_id}
        nested = [members.pop(name, None) for name in ("flags", "attributes")]
        flags = {}
        for attributes in nested:
            if isinstance(attributes, dict):
                for name, value in attributes.items():
                    flags[name] = value
        return {**{name: value for name, value in members.items() if value}, **flags}


def is_labelme(page: Any) -> bool:
    """Return whether JSON content is labelme's."""
    return (
        isinstance(page, dict)
        and isinstance(page.get("shapes"), list)
        and any(name in page for name in ("imagePath", "imageHeight", "imageData"))
    )


def parse_labelme(page: Any, path: Path, image: ImageReference) -> Parsed:
    """Return the shapes of a file; shapes of the same label and group are parts of one region."""
    page = _Page.of(page)
    groups: dict[Any, list[_Shape]] = {}
    places: dict[Any, tuple[str, str]] = {}
    for number, shape in enumerate(map(_Shape.of, page.shapes), 1):
        if shape.label is None:
            label = ""
        else:
            label = str(shape.label).strip()
        area = shape.group_id is not None and shape.shape_type not in _NO_AREA
        key = (label, shape.group_id) if area else number
        where = f"{path}, shape {number}" + (f" ({label})" if label else "")
        places.setdefault(key, (where, label))
        groups.setdefault(key, []).append(shape)
    objects = []
    for key, parts in groups.items():
        objects.append(
            Drawn(
                where=places[key][0],
                geometry=partial(_geometries, parts),
                label=places[key][1],
                score=parts[0].score,
                values=parts[0].values,
            )
        )
    size = whole_size(page.imageHeight, page.imageWidth)
    return Parsed(objects=objects, images=[ListedImage(name=page.imagePath or "", size=size)])


def _geometries(parts: list[_Shape]) -> list[Geometry | None]:
    return [_geometry(part) for part in parts]


def _geometry(shape: _Shape) -> Geometry | None:
    from shapely import MultiPoint

    kind = shape.shape_type or "polygon"
    if kind in _NO_AREA:
        raise LeftOut(f"is a {kind}")
    points = shape.points
    if points is None:
        raise ValueError("its points are not pairs of coordinates")
    if kind in _POLYGONS or (kind == "rectangle" and len(points) == 4):
        # Other programs write all corners of rectangles, also of turned ones.
        return Outline(polygons_of(ring(points)))
    if kind not in ("rectangle", "circle", "mask") or len(points) != 2:
        raise ValueError(f"it is a {kind} of {len(points)} points; save it as a polygon")
    (x, y), (x1, y1) = points
    if kind == "rectangle":
        return Outline(polygons_of(MultiPoint(points).envelope))
    if kind == "circle":
        radius = hypot(x1 - x, y1 - y)
        return Outline([ellipse(x, y, radius, radius)])
    return _mask(shape.mask, int(x), int(y), int(x1), int(y1))


def _mask(text: str | None, x0: int, y0: int, x1: int, y1: int) -> Region | None:
    """Decode a mask: a PNG in base64, with its first and last pixel as points."""
    box = (y1 - y0 + 1, x1 - x0 + 1)
    check_crop(*box)
    with open_picture(BytesIO(b64decode(text or "")), ("PNG",)) as picture:
        if picture.size[::-1] != box:
            raise ValueError(f"its mask has {picture.size[::-1]} px (height, width), its box {box}")
        return Region.from_mask(0, np.asarray(picture.convert("L")) > 0, (y0, x0))


LABELME: Final = AnnotationFormat(
    name="labelme",
    content="shapes, imagePath",
    markers=((b'"shapes"', b'"imageHeight"'), (b'"shapes"', b'"imagePath"')),
    matches=is_labelme,
    parse=parse_labelme,
)
