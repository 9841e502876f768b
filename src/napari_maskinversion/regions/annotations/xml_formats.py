"""Formats in XML: Pascal VOC and what grew out of it, CVAT for images and video. Read only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from math import degrees
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.reading import MOST_JSON, check_file
from ...base.regions import Region
from .annotation_building import AnnotationFormat, Box, Drawn, Geometry, LeftOut, Outline, Parsed
from .json_files import as_number
from .listed_images import ImageReference, ListedImage, choose_images, whole_size
from .polygons import check_crop, ellipse, finite, ring, turned, turned_box
from .rle import check_counts

_FRACTION: Final = re.compile(r"\s*[0-9]+\.[0-9]*[1-9][0-9]*\s*")
_WHOLE: Final = re.compile(r"\s*(-?[0-9]{1,9})(\.0*)?\s*")
_NO_AREA: Final = ("polyline", "points", "cuboid", "skeleton")
_DEFAULTS: Final = ("", "0", "Unspecified")  # values of attributes that say nothing
_SIDES: Final = ("xmin", "ymin", "xmax", "ymax")
_ROUND_SIDES: Final = ("cx", "cy", "w", "h", "angle")


def read_xml(path: Path) -> Any:
    """Read an XML file; refuses entities, which can be made to fill the memory."""
    from defusedxml.ElementTree import ParseError, parse

    check_file(path, "file of regions", most=MOST_JSON)
    try:
        return parse(path).getroot()
    except (ParseError, LookupError, ValueError) as error:  # also of entities and encodings
        raise InputError(
            f"{path} is broken XML: {error}; copy it again, or save it as UTF-8 without entities."
        ) from None


def _size(*sides: str | None) -> tuple[int, int] | None:
    whole = [_WHOLE.fullmatch(text or "") for text in sides]
    return whole_size(*(match and int(match.group(1)) for match in whole))


def parse_voc(root: Any, path: Path, image: ImageReference) -> Parsed:
    """Return the boxes of a VOC file; it counts pixels from 1, and a box includes its last one.

    Programs that count from 0 write the edges of pixels; so do those with polygons or turned boxes.
    """
    notes = []
    objects = []
    sides = []
    for side, of_labelme in (("height", "nrows"), ("width", "ncols")):
        sides.append(root.findtext(f"size/{side}") or root.findtext(f"imagesize/{of_labelme}"))
    size = _size(*sides)
    entries = root.findall("object")
    ends = []
    for entry in entries:
        ends.append([entry.findtext(f"bndbox/{side}") or "" for side in _SIDES])
    # Lowest corners as they are written, without those of broken boxes.
    corners = []
    for box in ends:
        if _is_box(box):
            for text in box[:2]:
                corners.append(text)
    whole = []
    for match in map(_WHOLE.fullmatch, corners):
        if match:
            whole.append(int(match[1]))
    first = 1
    lowest = min(whole, default=1)
    scale = _scale(ends, image.shape or size)
    if scale != (1, 1):
        first = 0
        notes.append(f"{path}: its boxes were read as shares of the image.")
    elif lowest < 1:
        first = 0
        notes.append(
            f"{path} has a box that begins at {lowest}; all boxes were read as counted from 0."
        )
    elif any(map(_FRACTION.fullmatch, corners)):
        first = 0
        notes.append(f"{path} has parts of pixels; all boxes were read as counted from 0.")
    elif any(entry.find("attributes/attribute[name='rotation']") is not None for entry in entries):
        notes.append(
            f"{path} is of CVAT, which counts from 0; its boxes, without parts of pixels, were "
            "read as counted from 1: export 'CVAT for images 1.1' if they are a pixel off."
        )
    for number, item in enumerate(entries, 1):
        label = (item.findtext("name") or "").strip()
        where = f"{path}, object {number}" + (f" ({label})" if label else "")
        if len(item.findall("bndbox")) > 1:
            notes.append(
                f"{where} has more than one box; only its first box was read. Save each box as an "
                "object of its own."
            )
        values = {}
        for child in item:
            if not len(child):
                values[child.tag] = (child.text or "").strip()
        attributes = {}
        for attribute in item.iterfind("attributes/attribute"):
            attributes[attribute.findtext("name") or ""] = (
                attribute.findtext("value") or ""
            ).strip()
        values |= attributes
        turn = _turn(values.get("rotation"))
        if turn is not None:
            del values["rotation"]
        objects.append(
            Drawn(
                where=where,
                geometry=partial(_voc_geometry, item, first, turn or 0, scale),
                label=label,
                values=_set(values, "name"),
            )
        )
    listed = ListedImage(name=(root.findtext("filename") or "").strip(), size=size)
    return Parsed(objects=objects, images=[listed], notes=notes)


def _is_box(texts: list[str]) -> bool:
    with suppress(ValueError):
        x0, y0, x1, y1 = map(float, texts)
        return x0 < x1 and y0 < y1
    return False


def _scale(sides: list[list[str]], shape: tuple[int, int] | None) -> tuple[int, int]:
    """Return the pixels (x, y) of 1: those of the image, where no side of a box exceeds 1."""
    with suppress(ValueError):
        numbers = []
        for texts in sides:
            for text in texts:
                if text:
                    numbers.append(float(text))
        if shape and max(numbers) <= 1 and any(0 < number < 1 for number in numbers):
            return shape[1], shape[0]
    return 1, 1


def _set(values: Mapping[str, str], *left_out: str) -> dict[str, str]:
    """Return the attributes that say something, without some."""
    attributes = {}
    for name, value in values.items():
        if value not in _DEFAULTS and name not in left_out:
            attributes[name] = value
    return attributes


def _turn(text: str | None) -> float | None:
    """Return the turn of a box, in degrees; None for a text that is no number."""
    with suppress(ValueError):
        return finite(text, "rotation")
    return None


def _voc_geometry(item: Any, first: int, turn: float, scale: tuple[int, int]) -> Geometry:
    """Return polygons (LabelMe, Roboflow), a turned box (roLabelImg, DIOR-R, CVAT) or a box."""
    if (item.findtext("deleted") or "").strip() == "1":
        raise LeftOut("is deleted")
    round_box = item.find("robndbox")
    if round_box is not None and round_box.find("angle") is not None:  # in radians
        x, y, wide, high, angle = (finite(round_box.findtext(side), side) for side in _ROUND_SIDES)
        ends = (x - wide / 2, y - high / 2, x + wide / 2, y + high / 2)
        return Outline([turned_box(*ends, degrees(angle))])
    if round_box is None:
        outlines = item.findall("polygon")
    else:
        outlines = [round_box]
    if outlines:
        return Outline([ring(_corners(outline)) for outline in outlines])
    sides = zip(_SIDES, scale * 2, strict=True)
    x0, y0, x1, y1 = (finite(item.findtext(f"bndbox/{side}"), side) * by for side, by in sides)
    (x0, x1) = sorted((x0, x1))
    (y0, y1) = sorted((y0, y1))  # drawn from its lower corner
    if turn:  # of CVAT
        return Outline([turned_box(x0 - first, y0 - first, x1, y1, turn)])
    return Box(y0 - first, x0 - first, y1, x1)


def _corners(outline: Any) -> list[tuple[float, float]]:
    """Return the corners in elements such as ``x``, ``x1`` or ``x_left_top``."""
    coordinates: dict[str, list[float]] = {"x": [], "y": []}
    for element in outline.iter():
        if re.match(r"[xy](\d|_|$)", element.tag):
            axis = element.tag[0]
            coordinates[axis].append(finite(element.text, element.tag))
    return list(zip(coordinates["x"], coordinates["y"], strict=True))


def parse_cvat(root: Any, path: Path, image: ImageReference) -> Parsed:
    """Return the shapes of an image, or of the tracks of a video on all its planes."""
    tracks = root.findall("track")
    entries = root.findall("image")
    listed = []
    for place, entry in enumerate(entries):
        listed.append(
            ListedImage(
                key=place,
                name=entry.get("name") or "",
                size=_size(entry.get("height"), entry.get("width")),
            )
        )
    if entries:
        (chosen,) = choose_images(listed, path, image)
        objects = [
            _cvat_drawn(shape, f"{path}, {chosen.name}, {shape.tag} {number}")
            for number, shape in enumerate(entries[chosen.key], 1)
            if shape.tag != "tag"  # about the whole image
        ]
    elif tracks:
        sides = (root.findtext(f"meta//original_size/{side}") for side in ("height", "width"))
        chosen = ListedImage(name=root.findtext("meta//source") or "", size=_size(*sides))
        objects = []
        for track in tracks:
            for shape in track:
                if shape.get("outside") != "1":
                    objects.append(_cvat_drawn(shape, f"{path}, track {track.get('id')}", track))
    else:
        raise InputError(f"{path} is of CVAT, and has neither images nor tracks.")
    return Parsed(objects=objects, images=[chosen], colors=_cvat_labels(root))


def _cvat_drawn(shape: Any, where: str, track: Any = None) -> Drawn:
    """Return a shape of an image, or of a track on one of its frames."""
    if track is None:
        named = shape
    else:
        named = track
    label = (named.get("label") or "").strip()
    values = {name: shape.get(name) or "" for name in ("group_id", "occluded")}
    values = _set(values) | {
        str(attribute.get("name")): (attribute.text or "").strip()
        for attribute in shape.iterfind("attribute")
    }
    about: dict[str, Any] = {}
    where += f" ({label})" if label else ""
    if track is not None:
        frame = shape.get("frame") or ""
        track_id = as_number(track.get("id"))
        where += f", frame {frame}"
        about["position"] = (("t", int(frame) if frame.isdecimal() else 0),)
        if track_id is not None:
            about["source_id"] = str(track_id)
        if type(track_id) is int:
            about["id"] = track_id + 1  # its numbers begin at 0
    geometry = partial(_cvat_geometry, shape, tracked=track is not None)
    return Drawn(where=where, geometry=geometry, label=label, values=values, **about)


def _cvat_labels(root: Any) -> dict[str, str]:
    """Return the labels of areas of task or project, with their colours."""
    labels = {}
    for label in root.iterfind("meta//labels/label"):
        name, color = (label.findtext(part) or "" for part in ("name", "color"))
        # Parts of skeletons are labels with a parent.
        area = label.findtext("type") not in _NO_AREA and not label.findtext("parent")
        if name.strip() and area:
            valid = len(color) == 7 and color.startswith("#")
            labels[name.strip()] = ""
            if valid:
                labels[name.strip()] = color.lower()
    return labels


def _cvat_geometry(drawn: Any, *, tracked: bool) -> Geometry | None:
    def numbers(*names: str) -> list[float]:
        return [finite(drawn.get(name), name) for name in names]

    if drawn.tag in _NO_AREA:
        raise LeftOut(f"is a {drawn.tag}")
    if tracked and not (drawn.get("frame") or "").isdecimal():
        raise ValueError(f"its frame is {drawn.get('frame')!r}, not a whole number")
    turn = _turn(drawn.get("rotation")) or 0
    if drawn.tag == "polygon":
        pairs = []
        for pair in (drawn.get("points") or "").split(";"):
            if pair:
                pairs.append(pair.split(","))
        return Outline([ring(pairs)])
    if drawn.tag == "box":
        left, top, right, bottom = numbers("xtl", "ytl", "xbr", "ybr")
        return Outline([turned_box(left, top, right, bottom, turn)])
    if drawn.tag == "ellipse":
        return Outline([turned(ellipse(*numbers("cx", "cy", "rx", "ry")), turn)])
    if drawn.tag != "mask":
        raise LeftOut("is a shape of an unknown kind")
    # Run lengths along the rows of a box, background first.
    x, y, wide, high = map(int, numbers("left", "top", "width", "height"))
    check_crop(high, wide)
    counts = [int(count) for count in (drawn.get("rle") or "").split(",")]
    check_counts(counts, high * wide)
    inside = np.arange(len(counts)) % 2 == 1
    return Region.from_mask(0, np.repeat(inside, counts).reshape(high, wide), (y, x))


VOC: Final = AnnotationFormat(
    name="Pascal VOC",
    suffixes=(".xml",),
    content="a root 'annotation'",
    markers=((b"<annotation", b"<bndbox"),),
    load=read_xml,
    matches=lambda root: root.tag == "annotation",
    parse=parse_voc,
)
CVAT: Final = AnnotationFormat(
    name="CVAT for images and video",
    suffixes=(".xml",),
    content="a root 'annotations'",
    markers=((b"<annotations", b"<image "), (b"<annotations", b"<track ")),
    load=read_xml,
    matches=lambda root: root.tag == "annotations" and root.find("ndpviewstate") is None,
    parse=parse_cvat,
)
