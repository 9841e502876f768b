"""CVAT's XML for images: polygons, boxes, ellipses and masks. Read only."""

from __future__ import annotations

import re
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.identity import Position
from ...base.regions import Region
from .annotation import (
    Annotation,
    Annotations,
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
    choose_images,
    note_other_image,
    size_of_images,
    whole_size,
)
from .polygons import draw_region, ring
from .rle import check_counts
from .xml_files import read_xml

_SIDE: Final = re.compile("[0-9]{1,9}")
_QUARTER: Final = 64  # edges of a quarter of an ellipse
_NO_AREA: Final = ("polyline", "points", "cuboid", "skeleton")


def read_cvat(root: Any, path: Path, image: ImageReference) -> Annotations:
    """Read the shapes of an image as regions, counted from 1; see `AnnotationFormat.read`."""
    notes: list[str] = []
    if root.find("image") is None:
        if root.find("track") is not None:
            raise InputError(
                f"{path} is CVAT's XML for video; in CVAT, export the task as 'CVAT for images "
                "1.1'."
            )
        raise InputError(f"{path} contains no image; export annotations from CVAT again.")
    entries = root.findall("image")
    listed = [_listed(place, entry) for place, entry in enumerate(entries)]
    (chosen,) = choose_images(listed, path, image)
    note_other_image(path, chosen.name, image, notes)
    shape = size_of_images([chosen], path, image.shape)
    items: list[Annotation] = []
    for number, shape_of in enumerate(entries[chosen.key], 1):
        label = (shape_of.get("label") or "").strip()
        where = f"{path}, {chosen.name}, {shape_of.tag} {number}" + (f" ({label})" if label else "")
        if shape_of.tag == "tag":
            continue  # about the whole image
        if shape_of.tag in _NO_AREA:
            notes.append(f"{where} was left out; regions are areas.")
            continue
        region = _region(len(items) + 1, shape_of, where, shape, notes)
        values = {
            str(one.get("name")): (one.text or "").strip() for one in shape_of.iterfind("attribute")
        }
        items.append(Annotation(region=region, label=label, values=values))
    check_not_empty(items, path, notes)
    return Annotations(
        shape=shape,
        items=tuple(items),
        image=image.name,
        colors=_labels(root),
        notes=tuple(notes),
    )


def _listed(place: int, entry: Any) -> ListedImage:
    sides = (entry.get(name) for name in ("height", "width"))
    size = [int(side) if side and _SIDE.fullmatch(side) else side for side in sides]
    position: Position = ()
    return ListedImage(
        key=place, name=entry.get("name") or "", size=whole_size(*size), position=position
    )


def _labels(root: Any) -> dict[str, str]:
    """Return the labels of areas of task or project, with their colours."""
    labels = {}
    for label in root.iterfind("meta//labels/label"):
        name, color = (label.findtext(part) or "" for part in ("name", "color"))
        # Parts of skeletons are labels with a parent.
        area = label.findtext("type") not in _NO_AREA and not label.findtext("parent")
        if name.strip() and area:
            valid = len(color) == 7 and color.startswith("#")
            labels[name.strip()] = color.lower() if valid else ""
    return labels


def _region(
    number: int, drawn: Any, where: str, shape: tuple[int, int], notes: list[str]
) -> Region:
    with record_errors(where):
        if drawn.tag == "mask":
            region = _mask(number, drawn, shape)
        else:
            region = draw_region(number, [_outline(drawn)], where, shape, notes)
    return on_image(region, where, shape)


def _outline(drawn: Any) -> Any:
    from shapely import Point, affinity, box

    if drawn.tag == "polygon":
        pairs = [pair.split(",") for pair in (drawn.get("points") or "").split(";") if pair]
        return ring(pairs)
    if drawn.tag == "box":
        x0, y0, x1, y1 = (_number(drawn, name) for name in ("xtl", "ytl", "xbr", "ybr"))
        outline: Any = box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
    elif drawn.tag == "ellipse":
        x, y, rx, ry = (_number(drawn, name) for name in ("cx", "cy", "rx", "ry"))
        circle = Point(0, 0).buffer(1, quad_segs=_QUARTER)
        outline = affinity.affine_transform(circle, (abs(rx), 0, 0, abs(ry), x, y))
    else:
        raise ValueError("shapes of this kind are unknown")
    return affinity.rotate(outline, _number(drawn, "rotation", "0"), origin="center")


def _mask(number: int, drawn: Any, shape: tuple[int, int]) -> Region | None:
    """Decode run lengths along the rows of a box, background first."""
    x, y, wide, high = (int(_number(drawn, name)) for name in ("left", "top", "width", "height"))
    if min(wide, high) < 1:
        raise ValueError(f"its mask has {high} x {wide} px")
    check_crop(high, wide)
    counts = [int(count) for count in (drawn.get("rle") or "").split(",")]
    check_counts(counts)
    if sum(counts) != wide * high:
        raise ValueError(f"its run lengths add up to {sum(counts)} px of {wide * high}")
    inside = np.arange(len(counts)) % 2 == 1
    return place_mask(number, y, x, np.repeat(inside, counts).reshape(high, wide), shape)


def _number(drawn: Any, name: str, default: str = "") -> float:
    text = drawn.get(name) or default
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise ValueError(f"its {name} is {text!r}, not a number")
    return number


CVAT: Final = AnnotationFormat(
    name="CVAT for images",
    suffixes=(".xml",),
    content="a root 'annotations'",
    markers=((b"<annotations", b"<image "), (b"<annotations", b"<track ")),
    load=read_xml,
    matches=lambda root: root.tag == "annotations",
    read=read_cvat,
)
