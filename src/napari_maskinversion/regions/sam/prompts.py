"""What SAM is asked for: boxes and points of objects, or everything in an image. Imports no torch.

Coordinates are (y, x); whole numbers are pixel centres, as in napari and SAM. A plane extends from
-0.5 to its size minus 0.5.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ...base.errors import EmptyMaskError, InputError
from ...base.label_blocks import LARGEST, join
from ...base.reading import read_rows
from ...base.regions import Region
from ...base.validation import FrozenModel, setting
from ...base.wording import counted, listed

Point = tuple[float, float]
FloatBox = tuple[float, float, float, float]
Row = Mapping[str, str]
_CORNERS: Final = ("y0", "x0", "y1", "x1")
_YES: Final = {"1", "true", "yes", "positive", "+"}
_NO: Final = {"0", "false", "no", "negative", "-"}
_ADVICE: Final = "They say what an object is not; add a positive point or a box to it."


class AutomaticConfig(FrozenModel):
    """How everything in an image is searched for."""

    points_per_side: int = setting(
        32,
        "Points a side",
        "Grid points along each side. More points find smaller objects; the time grows with their "
        "square.",
        ge=1,
        ui_max=256,
    )
    score: float = setting(
        0.88, "Score from", "Drop masks with a lower predicted IoU.", ge=0, le=1, cli="min-score"
    )
    stability: float = setting(
        0.95,
        "Stability from",
        "Drop masks with a less certain outline: the IoU of the mask at a higher and a lower "
        "threshold.",
        ge=0,
        le=1,
        cli="min-stability",
    )
    overlap: float = setting(
        0.7,
        "Overlap to",
        "Keep the better one of two masks whose boxes overlap more.",
        ge=0,
        le=1,
        cli="max-overlap",
    )
    min_area: int = setting(
        0, "Area from", "Drop masks with fewer pixels.", ge=0, unit="px", ui_max=1_000_000_000
    )
    whole: bool = setting(
        False,
        "Whole image only",
        "Do not look at a large image part by part: faster, but misses what is small in it.",
    )
    # Points in the model at once
    batch: int = setting(16, "Batch", ge=1, ui=False, cli=False)


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
            count = len(self.boxes)
            parts.append("box" if count == 1 else f"{count} boxes")
        for count, noun in ((len(self.positive), "point"), (len(self.negative), "negative point")):
            if count:
                parts.append(counted(count, noun))
        return ", ".join(parts)


class _PlacedBox(NamedTuple):
    """A box of an object; the smallest comes first."""

    area: float
    number: int
    box: FloatBox


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
    free = _free_numbers([*boxes, *points])
    clipped = []
    for mark in boxes:
        clipped.append(_clip(mark, shape))  # all of them, before a number is used
    objects: dict[int, _Object] = {}
    placed: list[_PlacedBox] = []
    for box, mark in zip(clipped, boxes, strict=True):
        number = mark.object
        if number is None:
            number = next(free)
        objects.setdefault(number, _Object(mark.name)).boxes.append(box)
        y0, x0, y1, x1 = box
        placed.append(_PlacedBox((y1 - y0) * (x1 - x0), number, box))
    everywhere: list[Point] = []
    for point in points:
        y, x = point.point
        # NaN fails this comparison too.
        if not (-0.5 <= y <= shape[0] - 0.5 and -0.5 <= x <= shape[1] - 0.5):
            raise InputError(
                f"{point.name}: the point (row {y:g}, column {x:g}) lies outside the image of "
                f"{shape[0]} rows and {shape[1]} columns."
            )
        object_number = point.object
        if not object_number:
            around = [box for box in placed if is_inside(point.point, box.box)]
            if around:  # the smallest one
                object_number = min(around).number
        if object_number is None:
            if not point.positive:
                everywhere.append(point.point)
                continue
            object_number = next(free)
        target = objects.setdefault(object_number, _Object(point.name))
        if point.positive:
            target.positive.append(point.point)
        else:
            target.negative.append(point.point)
    if not objects:
        raise InputError(f"An object has only negative points ({points[0].name}). {_ADVICE}")
    prompts = []
    for number, drawn in sorted(objects.items()):
        if not drawn.boxes and not drawn.positive:
            raise InputError(f"An object has only negative points ({drawn.name}). {_ADVICE}")
        negative = (*drawn.negative, *everywhere)
        prompts.append(
            Prompt(
                id=number,
                boxes=tuple(drawn.boxes),
                positive=tuple(drawn.positive),
                negative=negative,
            )
        )
    return prompts


@dataclass(slots=True)
class _Object:
    name: str  # Of its first mark
    boxes: list[FloatBox] = field(default_factory=list)
    positive: list[Point] = field(default_factory=list)
    negative: list[Point] = field(default_factory=list)


def is_inside(point: Point, box: FloatBox) -> bool:
    """Return whether a point lies in a box, or on its edge."""
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def object_numbers(boxes: Sequence[BoxMark]) -> list[int]:
    """Return the object number of each box, as `gather` assigns them without points."""
    free = _free_numbers(boxes)
    return [next(free) if mark.object is None else mark.object for mark in boxes]


def _free_numbers(marks: Sequence[BoxMark | PointMark]) -> Iterator[int]:
    taken = {}
    for mark in marks:
        if mark.object is not None:
            taken[mark.object] = mark
    for number, mark in taken.items():
        if not 1 <= number <= LARGEST:
            raise InputError(
                f"{mark.name} has the object number {number}; count from 1, and to {LARGEST} at "
                "most."
            )
    return (number for number in itertools.count(1) if number not in taken)


def _clip(mark: BoxMark, shape: tuple[int, int]) -> FloatBox:
    y0, x0, y1, x1 = mark.box
    rows = f"(rows {y0:g} to {y1:g}, columns {x0:g} to {x1:g})"
    if not (y0 < y1 and x0 < x1 and all(map(math.isfinite, mark.box))):  # NaN fails this, too
        raise InputError(
            f"{mark.name}: the box has no area {rows}; a box reaches from its upper left corner "
            "down and to the right."
        )
    cut = (max(y0, -0.5), max(x0, -0.5), min(y1, shape[0] - 0.5), min(x1, shape[1] - 0.5))
    if cut[0] >= cut[2] or cut[1] >= cut[3]:
        raise EmptyMaskError(
            f"{mark.name}: the box {rows} lies outside the image of {shape[0]} rows and {shape[1]} "
            "columns."
        )
    return cut


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
            y0, y1 = _pixels(box[0], box[2])
            x0, x1 = _pixels(box[1], box[3])
            parts.append((y0, x0, np.ones((y1 - y0, x1 - x0), bool)))
        joined, mask = join(parts)
        regions.append(Region(prompt.id, joined, mask))
    return regions


def _pixels(low: float, high: float) -> tuple[int, int]:
    """Return first and end of the pixels with centres in an interval, else of its middle pixel."""
    first = int(np.ceil(low))
    stop = int(np.floor(high)) + 1
    if first < stop:
        return first, stop
    middle = int(np.floor((low + high) / 2 + 0.5))
    return middle, middle + 1


def read_boxes(path: Path, on_note: Callable[[str], object] = lambda _: None) -> list[BoxMark]:
    """Read boxes.

    The file has columns ``y0, x0, y1, x1`` (pixel edges: 0, 0, H, W is the whole plane) and
    optionally ``object``, or is a Shapes layer saved by napari; then its rectangles are used, and
    ``on_note`` is called with a message about other shapes.
    """
    rows, columns = _table(path, _CORNERS, "object")
    boxes = []
    corners: dict[str, list[list[float]]] = {}  # Of napari's shapes
    kinds: dict[str, str] = {}  # Of napari's shapes that are no rectangles
    for name, row in rows:
        kind = row.get("shape-type", "rectangle").lower()
        if kind != "rectangle":
            kinds[row.get("index", name)] = kind
            continue
        values = [_number(row[key], key, name) for key in columns]
        if columns == _CORNERS:
            # Edges to centres: the first pixel's centre is 0, its edge -0.5.
            y0, x0, y1, x1 = (value - 0.5 for value in values)
            number = object_of(row.get("object", ""), name)
            boxes.append(BoxMark(box=(y0, x0, y1, x1), name=name, object=number))
        else:
            corners.setdefault(row.get("index", name), []).append(values)
    if kinds:
        shapes = listed(f"{index} ({kind})" for index, kind in kinds.items())
        note = f"{path}: the shapes {shapes} are no rectangles"
        if not boxes and not corners:
            raise InputError(f"{note}; to use them as regions: run IMAGE {path.name}.")
        on_note(f"{note} and were left out.")
    for index, vertices in corners.items():
        y0, x0 = np.min(vertices, axis=0).tolist()
        y1, x1 = np.max(vertices, axis=0).tolist()
        boxes.append(BoxMark(box=(y0, x0, y1, x1), name=f"{path.name}, shape {index}"))
    return boxes


def read_points(path: Path) -> list[PointMark]:
    """Read points.

    The file has columns ``y, x`` (whole numbers are pixel centres), or is a Points layer saved by
    napari. Optional columns: ``label`` (positive, negative, 1, 0) and ``object``.
    """
    rows, columns = _table(path, ("y", "x"), "label, object")
    points = []
    for name, row in rows:
        y, x = (_number(row[key], key, name) for key in columns)
        label = row.get("label", "") or row.get("positive", "")
        positive = positive_of(label)
        number = object_of(row.get("object", ""), name)
        if positive is None:
            raise InputError(f"{name}: label is {label!r}; say positive or negative (1 or 0).")
        points.append(PointMark(point=(y, x), name=name, positive=positive, object=number))
    return points


def _table(
    path: Path, usual: tuple[str, ...], optional: str
) -> tuple[list[tuple[str, Row]], tuple[str, ...]]:
    """Return rows with their names, and the columns to read: the last axes of a napari layer, too.

    Refuses coordinates on several planes.
    """
    rows: list[tuple[str, Row]] = []
    for line, row in read_rows(path, "table of marks"):
        rows.append((f"{path.name}, line {line}", row))
    first = rows[0][1]
    axes = tuple(f"axis-{i}" for i in range(len(first)) if f"axis-{i}" in first)
    for axis in axes[:-2]:
        if len({row[axis] for _, row in rows}) > 1:
            raise InputError(
                f"{path} has rows on several planes ({axis} differs); keep those of one plane, and "
                "choose it with --plane."
            )
    columns = axes[-2:] if len(axes) > 1 else usual
    if any(name not in first for name in columns):
        raise InputError(
            f"{path} has the columns {', '.join(first) or 'none'}; it needs {', '.join(usual)} "
            f"(optional: {optional}), or those of a layer that napari saved as CSV."
        )
    return rows, columns


def _number(text: str, column: str, name: str) -> float:
    with suppress(ValueError):
        if math.isfinite(value := float(text)):
            return value
    raise InputError(f"{name}: {column} is {text or 'empty'!r}; a number is needed.")


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
    if word in _NO:
        return False
    if word in _YES or not word:
        return True
    return None
