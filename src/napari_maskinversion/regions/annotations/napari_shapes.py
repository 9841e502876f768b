"""A Shapes layer that napari saved as CSV: rectangles, ellipses, polygons, paths and lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...base.identity import Position
from ...base.reading import read_rows, read_text
from ...base.wording import listed
from ..drawn_shapes import Shape, pixels_of
from .annotation_building import AnnotationFormat, Drawn, LeftOut, Parsed
from .listed_images import ImageReference
from .polygons import check_crop

KIND: Final = "shape-type"
_KINDS: Final = ("rectangle", "ellipse", "polygon", "path", "line")
_LINES: Final = ("path", "line")
_ROUNDED: Final = ("rectangle", "ellipse")
Row = tuple[int, Mapping[str, str]]  # its line in the file


def read_shapes(path: Path) -> list[tuple[str, list[Row]]]:
    """Return the rows of each shape by its index; nothing for another table."""
    head = read_text(path, "file of regions").partition("\n")[0].lower()
    if KIND not in head or "axis-1" not in head:
        return []
    needed = ("index", KIND, "axis-0", "axis-1")
    rows = read_rows(path, "file of regions", needed=needed)
    return [(index, list(some)) for index, some in groupby(rows, lambda row: row[1]["index"])]


def parse_shapes(
    shapes: Sequence[tuple[str, list[Row]]], path: Path, image: ImageReference
) -> Parsed:
    """Return shapes on the planes that the axes before the last two count."""
    notes = []
    objects = []
    places = {index: _plane(rows) for index, rows in shapes}
    axes: dict[str, None] = {}  # in the order of the file
    for place in places.values():
        axes |= dict.fromkeys(place)
    used = []
    for axis in axes:
        if any(place.get(axis) for place in places.values()):
            used.append(axis)
    lines = []
    for index, rows in shapes:
        if rows[0][1][KIND] in _LINES:
            lines.append(index)
    if lines:
        notes.append(
            f"{path}: lines and paths (shape {listed(lines)}) are one pixel wide; napari keeps no "
            "width."
        )
    for index, rows in shapes:
        position: Position = tuple((axis, places[index].get(axis, 0)) for axis in used)
        objects.append(
            Drawn(
                where=f"{path}, shape {index}",
                geometry=partial(_geometry, [row for _, row in rows]),
                position=position,
                source_id=index,
            )
        )
    return Parsed(objects=objects, notes=notes)


def corners_of(rows: Sequence[Mapping[str, str]]) -> Any:
    """Return the corners of a shape, (N, axes), or raise a ValueError."""
    axes = [name for name in rows[0] if name.startswith("axis-")]
    listed_corners = []
    for row in rows:
        listed_corners.append([float(row[axis]) for axis in axes])
    corners = np.array(listed_corners)
    if not np.isfinite(corners).all():
        raise ValueError("its corners are not numbers")
    return corners


def _plane(rows: Sequence[Row]) -> dict[str, int]:
    try:
        place = np.round(corners_of([rows[0][1]])[0, :-2])
    except ValueError:  # it is left out below
        return {}
    return {f"axis-{axis}": max(0, int(place)) for axis, place in enumerate(place)}


def _geometry(rows: Sequence[Mapping[str, str]]) -> Any:
    corners = corners_of(rows)
    kind = rows[0][KIND].lower()
    if np.ptp(np.round(corners[:, :-2]), axis=0).any():
        raise LeftOut("crosses planes")
    corners = corners[:, -2:]
    if kind not in _KINDS:
        raise ValueError(f"its {KIND} is {kind!r}")
    if kind in _ROUNDED and len(corners) == 2:  # as napari takes them, too
        first, second = corners
        if kind == "ellipse":
            low = first - second
            high = first + second
        else:
            low = first
            high = second
        corners = np.array([low, (low[0], high[1]), high, (high[0], low[1])])
    if len(corners) < (2 if kind in _LINES else 3):
        raise ValueError(f"it has {len(corners)} corners")
    check_crop(*np.ptp(corners, axis=0).astype(int).tolist())
    return pixels_of(Shape(id=0, kind=kind, vertices=corners))


NAPARI_SHAPES: Final = AnnotationFormat(
    name="napari's Shapes",
    suffixes=(".csv",),
    content="a Shapes layer saved as CSV",
    markers=(),
    load=read_shapes,
    matches=bool,
    parse=parse_shapes,
    in_viewer=False,  # napari opens them itself
)
