"""What SAM is asked for: boxes and points of objects, or everything in an image. Imports no torch.

Coordinates are (y, x); whole numbers are pixel centres, as in napari and SAM. A plane extends from
-0.5 to its size minus 0.5.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from pydantic import Field

from ...base.errors import EmptyMaskError, InputError
from ...base.label_blocks import LARGEST, join
from ...base.reading import read_rows
from ...base.regions import Region
from ...base.validation import FrozenModel

Point = tuple[float, float]
FloatBox = tuple[float, float, float, float]
Row = Mapping[str, str]
_CORNERS: Final = ("y0", "x0", "y1", "x1")
_YES: Final = {"1", "true", "yes", "positive", "+"}
_NO: Final = {"0", "false", "no", "negative", "-"}
_ADVICE: Final = "They say what an object is not; add a positive point or a box to it."


class AutomaticConfig(FrozenModel):
    """How everything in an image is searched for."""

    # Points of the grid along each side
    points_per_side: int = Field(
        default=32,
        title="Points a side",
        description="Grid points along each side. More points find smaller objects; the time grows "
        "with their square.",
        ge=1,
        json_schema_extra={"ui_max": 256},
    )
    # Masks with a lower score are dropped
    score: float = Field(
        default=0.88,
        title="Score from",
        description="Drop masks with a lower predicted IoU.",
        ge=0,
        le=1,
        json_schema_extra={"cli": "min-score"},
    )
    # Masks whose IoU with themselves at another threshold is lower are dropped
    stability: float = Field(
        default=0.95,
        title="Stability from",
        description="Drop masks with a less certain outline: the IoU of the mask at a higher and a "
        "lower threshold.",
        ge=0,
        le=1,
        json_schema_extra={"cli": "min-stability"},
    )
    # Masks whose box overlaps that of a better mask more than this (IoU) are dropped
    overlap: float = Field(
        default=0.7,
        title="Overlap to",
        description="Keep the better one of two masks whose boxes overlap more.",
        ge=0,
        le=1,
        json_schema_extra={"cli": "max-overlap"},
    )
    # Masks with fewer pixels of the plane are dropped
    min_area: int = Field(
        default=0,
        title="Area from",
        description="Drop masks with fewer pixels.",
        ge=0,
        json_schema_extra={"unit": "px", "ui_max": 1_000_000_000},
    )
    # Points in the model at once
    batch: int = Field(default=16, ge=1, json_schema_extra={"ui": False, "cli": False})


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxMark:
    """A box drawn by the user."""

    box: FloatBox  # ``(y0, x0, y1, x1)``
    name: str  # Its name in messages: "boxes.csv, line 3"
    object: int | None = None  # Number of its object; None for a new object

    def exceeds(self, shape: tuple[int, int]) -> bool:
        """Return whether the box extends beyond a plane (H, W), by more than half a pixel."""
        y0, x0, y1, x1 = self.box
        return min(y0, x0) < -1 or y1 > shape[0] or x1 > shape[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointMark:
    """A point set by the user."""

    point: Point  # ``(y, x)``
    name: str  # Its name in messages
    positive: bool = True  # Whether the point is on the object
    object: int | None = None  # Number of its object; see `gather` for what None means


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Boxes and points of one object."""

    id: int  # Its label in the result
    boxes: tuple[FloatBox, ...] = ()  # Several boxes are parts of one object
    positive: tuple[Point, ...] = ()
    negative: tuple[Point, ...] = ()

    @property
    def text(self) -> str:
        """The prompt in words: "box, 2 points"."""
        parts = []
        if self.boxes:
            parts.append("box" if len(self.boxes) == 1 else f"{len(self.boxes)} boxes")
        for count, what in ((len(self.positive), "point"), (len(self.negative), "negative point")):
            if count:
                parts.append(f"{count} {what}{'s' * (count != 1)}")
        return ", ".join(parts)


def gather(
    boxes: Sequence[BoxMark], points: Sequence[PointMark], shape: tuple[int, int]
) -> list[Prompt]:
    """Group boxes and points by object.

    Boxes and points with the same number are one object. Without a number, each box is an object; a
    point belongs to the smallest box around it; a positive point in no box is an object, and a
    negative point in no box belongs to every object.
    """
    if not boxes and not points:
        raise InputError("There is neither a box nor a point; draw or list one at least.")
    inside = [replace(mark, box=_clip(mark, shape)) for mark in boxes]
    for point in points:
        _check_point(point, shape)
    marks: list[BoxMark | PointMark] = [*boxes, *points]
    _check_numbers(marks)
    free = _free(marks)
    parts: dict[int, tuple[list[FloatBox], list[Point], list[Point]]] = {}
    names: dict[int, str] = {}
    placed = []
    for box in inside:
        number = next(free) if box.object is None else box.object
        names.setdefault(number, box.name)
        parts.setdefault(number, ([], [], []))[0].append(box.box)
        y0, x0, y1, x1 = box.box
        placed.append(((y1 - y0) * (x1 - x0), number, box.box))
    everywhere: list[Point] = []
    for point in points:
        number_of = point.object or _around(point.point, placed)
        if number_of is None and not point.positive:
            everywhere.append(point.point)
            continue
        number = next(free) if number_of is None else number_of
        names.setdefault(number, point.name)
        _, positive, negative = parts.setdefault(number, ([], [], []))
        (positive if point.positive else negative).append(point.point)
    if not parts:
        raise InputError(f"There are only negative points ({points[0].name}, ...). {_ADVICE}")
    for number, (own, positive, _) in parts.items():
        if not own and not positive:
            raise InputError(
                f"Object {number} ({names[number]}) has only negative points. {_ADVICE}"
            )
    return [
        Prompt(
            id=number,
            boxes=tuple(own),
            positive=tuple(positive),
            negative=(*negative, *everywhere),
        )
        for number, (own, positive, negative) in sorted(parts.items())
    ]


def object_numbers(boxes: Sequence[BoxMark]) -> list[int]:
    """Return the object number of each box, as `gather` assigns them without points."""
    _check_numbers(boxes)
    free = _free(boxes)
    return [next(free) if mark.object is None else mark.object for mark in boxes]


def _free(marks: Sequence[BoxMark | PointMark]) -> Iterator[int]:
    taken = {mark.object for mark in marks}
    return (number for number in itertools.count(1) if number not in taken)


def _check_numbers(marks: Sequence[BoxMark | PointMark]) -> None:
    for mark in marks:
        if mark.object is not None and not 1 <= mark.object <= LARGEST:
            raise InputError(
                f"{mark.name} has the object number {mark.object}; count from 1, and to "
                f"{LARGEST} at most."
            )


def _clip(mark: BoxMark, shape: tuple[int, int]) -> FloatBox:
    y0, x0, y1, x1 = mark.box
    if not all(map(math.isfinite, mark.box)):
        raise InputError(f"{mark.name}: a corner of the box is no number; got {mark.box}.")
    if y1 <= y0 or x1 <= x0:
        raise InputError(
            f"{mark.name}: the box has no area (rows {y0:g} to {y1:g}, columns {x0:g} to {x1:g}); "
            "a box reaches from its upper left corner down and to the right."
        )
    cut = (max(y0, -0.5), max(x0, -0.5), min(y1, shape[0] - 0.5), min(x1, shape[1] - 0.5))
    if cut[0] >= cut[2] or cut[1] >= cut[3]:
        raise EmptyMaskError(
            f"{mark.name}: the box (rows {y0:g} to {y1:g}, columns {x0:g} to {x1:g}) lies outside "
            f"the image of {shape[0]} rows and {shape[1]} columns."
        )
    return cut


def _check_point(mark: PointMark, shape: tuple[int, int]) -> None:
    y, x = mark.point
    # NaN fails this comparison too.
    if not (-0.5 <= y <= shape[0] - 0.5 and -0.5 <= x <= shape[1] - 0.5):
        raise InputError(
            f"{mark.name}: the point (row {y:g}, column {x:g}) lies outside the image of "
            f"{shape[0]} rows and {shape[1]} columns."
        )


def _around(point: Point, boxes: list[tuple[float, int, FloatBox]]) -> int | None:
    """Return the object of the smallest box around a point."""
    y, x = point
    around = [
        (area, number)
        for area, number, (y0, x0, y1, x1) in boxes
        if y0 <= y <= y1 and x0 <= x <= x1
    ]
    return min(around)[1] if around else None


def regions_of_boxes(prompts: Sequence[Prompt]) -> list[Region]:
    """Return the boxes as regions, without a model."""
    regions = []
    for prompt in prompts:
        if not prompt.boxes:
            raise InputError(
                f"Object {prompt.id} has points but no box, and there is no SAM checkpoint; "
                "choose a checkpoint, or draw a box."
            )
        parts = []
        for box in prompt.boxes:
            (y0, y1), (x0, x1) = _pixels(box[0], box[2]), _pixels(box[1], box[3])
            parts.append((y0, x0, np.ones((y1 - y0, x1 - x0), bool)))
        joined, mask = join(parts)
        regions.append(Region(prompt.id, joined, mask))
    return regions


def _pixels(low: float, high: float) -> tuple[int, int]:
    """Return first and end of the pixels with centres in an interval, else of its middle pixel."""
    first, stop = int(np.ceil(low)), int(np.floor(high)) + 1
    if first < stop:
        return first, stop
    middle = int(np.floor((low + high) / 2 + 0.5))
    return middle, middle + 1


def read_boxes(path: Path) -> list[BoxMark]:
    """Read boxes.

    The file has columns ``y0, x0, y1, x1`` (pixel edges: 0, 0, H, W is the whole plane) and
    optionally ``object``, or is a Shapes layer saved by napari; then each shape's box is used.
    """
    rows = list(read_rows(path, "table of marks"))
    if "vertex-index" in rows[0][1]:
        return _shapes(path, rows)
    _check_columns(path, rows[0][1], _CORNERS, "y0, x0, y1, x1 (optional: object)")
    boxes = []
    for line, row in rows:
        name = f"{path.name}, line {line}"
        # Edges to centres: the first pixel's centre is 0, its edge -0.5.
        y0, x0, y1, x1 = (_number(row[key], key, name) - 0.5 for key in _CORNERS)
        boxes.append(
            BoxMark(box=(y0, x0, y1, x1), name=name, object=object_of(row.get("object", ""), name))
        )
    return boxes


def read_points(path: Path) -> list[PointMark]:
    """Read points.

    The file has columns ``y, x`` (whole numbers are pixel centres), or is a Points layer saved by
    napari. Optional columns: ``label`` (positive, negative, 1, 0) and ``object``.
    """
    rows = list(read_rows(path, "table of marks"))
    axes = _axes(rows[0][1]) or ("y", "x")
    _check_columns(path, rows[0][1], axes, "y, x (optional: label, object)")
    _check_flat(path, rows, axes)
    points = []
    for line, row in rows:
        name = f"{path.name}, line {line}"
        y, x = (_number(row[key], key, name) for key in axes[-2:])
        label = row.get("label", "") or row.get("positive", "")
        positive, number = positive_of(label), object_of(row.get("object", ""), name)
        if positive is None:
            raise InputError(f"{name}: label is {label!r}; say positive or negative (1 or 0).")
        points.append(PointMark(point=(y, x), name=name, positive=positive, object=number))
    return points


def _shapes(path: Path, rows: Sequence[tuple[int, Row]]) -> list[BoxMark]:
    axes = _axes(rows[0][1])
    _check_columns(path, rows[0][1], ("index", *axes[-2:]), "index and axes, as napari writes them")
    _check_flat(path, rows, axes)
    corners: dict[str, list[tuple[float, float]]] = {}
    for line, row in rows:
        name = f"{path.name}, line {line}"
        y, x = (_number(row[key], key, name) for key in axes[-2:])
        corners.setdefault(row["index"], []).append((y, x))
    boxes = []
    for index, vertices in corners.items():
        down, across = zip(*vertices, strict=True)
        box = (min(down), min(across), max(down), max(across))
        boxes.append(BoxMark(box=box, name=f"{path.name}, shape {index}"))
    return boxes


def _axes(row: Row) -> tuple[str, ...]:
    """Return the names of napari's coordinate columns."""
    return tuple(f"axis-{i}" for i in range(len(row)) if f"axis-{i}" in row)


def _check_columns(path: Path, row: Row, wanted: Sequence[str], what: str) -> None:
    missing = [name for name in wanted if name not in row]
    if missing or len(wanted) < 2:
        raise InputError(
            f"{path} has the columns {', '.join(row) or 'none'}; it needs {what}, or those of a "
            "layer that napari saved as CSV."
        )


def _check_flat(path: Path, rows: Sequence[tuple[int, Row]], axes: Sequence[str]) -> None:
    """Refuse coordinates on several planes."""
    for axis in axes[:-2]:
        if len({row[axis] for _, row in rows}) > 1:
            raise InputError(
                f"{path} has rows on several planes ({axis} differs); keep those of one plane, and "
                "choose it with --plane."
            )


def _number(text: str, column: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{name}: {column} is {text or 'empty'!r}; a number is needed.")
    return value


def object_of(value: Any, name: str) -> int | None:
    """Return the number of an object as a table has it; None for none."""
    text = str(value).strip()
    if text.lower() in ("", "nan", "none"):
        return None
    number = _number(text, "object", name)
    if number != int(number):
        raise InputError(f"{name}: object is {text!r}; a whole number is needed.")
    return int(number)


def positive_of(label: Any) -> bool | None:
    """Return whether a label says that a point is on its object; None for any other word."""
    word = str(label).strip().lower().removesuffix(".0")
    return False if word in _NO else True if word in _YES or not word else None
