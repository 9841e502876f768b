"""Prompts for SAM: boxes and points, in pixels of a plane. Imports no torch.

Coordinates are (y, x); whole numbers are pixel centres, as in napari and SAM. A plane extends from
-0.5 to its size minus 0.5.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...base.errors import EmptyMaskError, InputError

Point = tuple[float, float]
FloatBox = tuple[float, float, float, float]
_MOST_ID: Final = 2**31 - 1  # of a Labels layer


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
    prompts: dict[int, Prompt] = {}
    names: dict[int, str] = {}

    def prompt(number: int, name: str) -> Prompt:
        names.setdefault(number, name)
        return prompts.setdefault(number, Prompt(id=number))

    placed = []
    for box in inside:
        number = next(free) if box.object is None else box.object
        own = prompt(number, box.name)
        prompts[number] = replace(own, boxes=(*own.boxes, box.box))
        placed.append((_area(box.box), number, box.box))
    everywhere: list[Point] = []
    for point in points:
        number_of = point.object or _around(point.point, placed)
        if number_of is None and not point.positive:
            everywhere.append(point.point)
            continue
        number = next(free) if number_of is None else number_of
        own = prompt(number, point.name)
        if point.positive:
            prompts[number] = replace(own, positive=(*own.positive, point.point))
        else:
            prompts[number] = replace(own, negative=(*own.negative, point.point))
    if not prompts:
        raise InputError(f"There are only negative points ({points[0].name}, ...). {_ADVICE}")
    for number, own in prompts.items():
        if not own.boxes and not own.positive:
            raise InputError(
                f"Object {number} ({names[number]}) has only negative points. {_ADVICE}"
            )
    return [
        replace(own, negative=(*own.negative, *everywhere)) for _, own in sorted(prompts.items())
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
        if mark.object is not None and not 1 <= mark.object <= _MOST_ID:
            raise InputError(
                f"{mark.name} has the object number {mark.object}; count from 1, and to "
                f"{_MOST_ID} at most."
            )


_ADVICE = "They say what an object is not; add a positive point or a box to it."


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


def _area(box: FloatBox) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
