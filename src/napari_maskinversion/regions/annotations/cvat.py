"""CVAT's XML for images: polygons, boxes, ellipses and masks. Read only."""

from __future__ import annotations

from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from .building import AnnotationFormat, Drawn, Geometry, LeftOut, Mask, Outline, Parsed
from .listed_images import ImageReference, ListedImage, choose_images, whole_size
from .polygons import check_crop, ellipse, ring
from .rle import check_counts
from .xml_files import read_xml, whole_number

_NO_AREA: Final = ("polyline", "points", "cuboid", "skeleton")


def parse_cvat(root: Any, path: Path, image: ImageReference) -> Parsed:
    """Return the shapes of an image."""
    entries = root.findall("image")
    if not entries:
        what = "CVAT's XML for video" if root.find("track") is not None else "without an image"
        raise InputError(f"{path} is {what}; in CVAT, export the task as 'CVAT for images 1.1'.")
    listed = [_listed(place, entry) for place, entry in enumerate(entries)]
    (chosen,) = choose_images(listed, path, image)
    objects = []
    for number, shape in enumerate(entries[chosen.key], 1):
        if shape.tag == "tag":
            continue  # about the whole image
        label = (shape.get("label") or "").strip()
        where = f"{path}, {chosen.name}, {shape.tag} {number}" + (f" ({label})" if label else "")
        values = {
            str(one.get("name")): (one.text or "").strip() for one in shape.iterfind("attribute")
        }
        geometry = partial(_geometry, shape)
        objects.append(Drawn(where=where, geometry=geometry, label=label, values=values))
    return Parsed(objects=objects, images=[chosen], colors=_labels(root))


def _listed(place: int, entry: Any) -> ListedImage:
    size = whole_size(*(whole_number(entry.get(side)) for side in ("height", "width")))
    return ListedImage(key=place, name=entry.get("name") or "", size=size)


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


def _geometry(drawn: Any) -> Geometry:
    from shapely import affinity, box

    if drawn.tag in _NO_AREA:
        raise LeftOut(f"is a {drawn.tag}")
    if drawn.tag == "mask":
        return _mask(drawn)
    if drawn.tag == "polygon":
        pairs = [pair.split(",") for pair in (drawn.get("points") or "").split(";") if pair]
        return Outline([ring(pairs)])
    if drawn.tag == "box":
        x0, y0, x1, y1 = (_number(drawn, name) for name in ("xtl", "ytl", "xbr", "ybr"))
        outline: Any = box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
    elif drawn.tag == "ellipse":
        outline = ellipse(*(_number(drawn, name) for name in ("cx", "cy", "rx", "ry")))
    else:
        raise ValueError("shapes of this kind are unknown")
    return Outline([affinity.rotate(outline, _number(drawn, "rotation", "0"), origin="center")])


def _mask(drawn: Any) -> Mask:
    """Decode run lengths along the rows of a box, background first."""
    x, y, wide, high = (int(_number(drawn, name)) for name in ("left", "top", "width", "height"))
    if min(wide, high) < 1:
        raise ValueError(f"its mask has {high} x {wide} px")
    check_crop(high, wide)
    counts = [int(count) for count in (drawn.get("rle") or "").split(",")]
    check_counts(counts, high * wide)
    inside = np.arange(len(counts)) % 2 == 1
    return Mask(y, x, np.repeat(inside, counts).reshape(high, wide))


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
    parse=parse_cvat,
)
