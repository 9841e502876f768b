"""Parts of planes that are larger than SAM's input. Imports no torch.

A prompt is answered in a part around it, twice as large each time that its mask reaches the edge.
Everything is looked for in overlapping parts of several sizes, the whole plane among them; there
masks at the edge of a part are dropped, since a neighbour or a larger part has them whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from ...base.regions import Region
from ...images.plane_source import Array, Box, Level, PlaneSource
from .prompts import FloatBox, Point, Prompt

_OVERLAP: Final = 4  # parts share a quarter with each neighbour
_COARSER: Final = 4  # times the size of the next larger parts
_WHOLE: Final = 1.5  # times the size of a part, a plane is not divided
_NEAR: Final = 20 / 1024  # of a part: a mask that ends so close to its edge is cut
_SAME: Final = 0.5  # IoU of two masks of one thing, one of them seen in a larger part


class Part:
    """A part of a plane, as a plane."""

    def __init__(self, source: PlaneSource, box: Box) -> None:
        self._source, self.box = source, box
        self.shape = (box[2] - box[0], box[3] - box[1])
        self.levels = (Level(self.shape),)

    def read(self, level: int, box: Box) -> Array:
        """Read pixels of the plane."""
        y, x = self.box[:2]
        return self._source.read(0, (box[0] + y, box[1] + x, box[2] + y, box[3] + x))

    def values(self, box: Box) -> Array:
        """Return the pixels that SAM sees."""
        return self.read(0, box)

    def check(self) -> None:
        """Accept a part that shows nothing."""


def part_of(source: PlaneSource, box: Box) -> PlaneSource:
    """Return a part, or the plane itself, with its levels, if the box is all of it."""
    return source if box == (0, 0, *source.shape) else Part(source, box)


def around(prompt: Prompt, shape: tuple[int, int], side: int) -> Box:
    """Return a part with a prompt near its middle: ``side`` pixels or more, and twice the prompt.

    Prompts that are close to each other have the same part.
    """
    corners = np.array([*prompt.positive, *(c for b in prompt.boxes for c in (b[:2], b[2:]))])
    low, high = corners.min(0), corners.max(0)
    while side < 2 * float((high - low).max()):
        side *= 2
    if _WHOLE * side >= max(shape):
        return (0, 0, *shape)
    step = side // 2
    # The part whose middle is nearest, of those on a grid of half their size.
    starts = [
        min(max(round((middle - step) / step) * step, 0), max(length - side, 0))
        for middle, length in zip(((low + high) / 2).tolist(), shape, strict=True)
    ]
    return (*starts, min(starts[0] + side, shape[0]), min(starts[1] + side, shape[1]))


def within(prompt: Prompt, box: Box) -> Prompt:
    """Return a prompt in the coordinates of a part; negative points elsewhere are left out."""
    y, x = box[:2]

    def points(those: Sequence[Point]) -> tuple[Point, ...]:
        return tuple((p[0] - y, p[1] - x) for p in those)

    def near(point: Point) -> bool:
        return box[0] - 0.5 <= point[0] < box[2] and box[1] - 0.5 <= point[1] < box[3]

    boxes: tuple[FloatBox, ...] = tuple(
        (b[0] - y, b[1] - x, b[2] - y, b[3] - x) for b in prompt.boxes
    )
    negative = points([point for point in prompt.negative if near(point)])
    return replace(prompt, boxes=boxes, positive=points(prompt.positive), negative=negative)


def is_cut(region: Region | None, box: Box, shape: tuple[int, int]) -> bool:
    """Return whether a region ends about where its part ends and the plane continues."""
    if region is None:
        return False
    near = int(_NEAR * max(box[2] - box[0], box[3] - box[1]))
    y0, x0, y1, x1 = region.bbox
    low = (y0 - near <= box[0] > 0) or (x0 - near <= box[1] > 0)
    return low or (y1 + near >= box[2] < shape[0]) or (x1 + near >= box[3] < shape[1])


def all_parts(shape: tuple[int, int], side: int) -> Iterator[Box]:
    """Yield parts of ``side`` pixels, larger ones, and the whole plane."""
    while _WHOLE * side < max(shape):
        starts = [_starts(length, side) for length in shape]
        for y in starts[0]:
            for x in starts[1]:
                yield (y, x, min(y + side, shape[0]), min(x + side, shape[1]))
        side *= _COARSER
    yield (0, 0, *shape)


def _starts(length: int, side: int) -> list[int]:
    """Return where parts begin, evenly, so that the last one ends where the plane does."""
    share = side // _OVERLAP
    count = max(1, -(-(length - share) // (side - share)))
    return [round(i * max(length - side, 0) / max(count - 1, 1)) for i in range(count)]


def distinct(seen: Sequence[tuple[float, Box, Region, Any]]) -> list[Any]:
    """Return the last of each (score, part, region, ...) without what a better one is, elsewhere.

    Of one part, boxes have been compared already: it may have a nucleus and its cell.
    """
    order = sorted(seen, key=lambda one: -one[0])
    boxes = np.array([region.bbox for _, _, region, _ in order]).reshape(-1, 4)
    kept: list[int] = []
    for number, (_, part, region, _) in enumerate(order):
        box, others = boxes[number], boxes[kept]
        meets = (np.maximum(box[:2], others[:, :2]) < np.minimum(box[2:], others[:, 2:])).all(1)
        near = [order[kept[place]] for place in np.flatnonzero(meets)]
        if not any(one[1] != part and _iou(region, one[2]) > _SAME for one in near):
            kept.append(number)
    return [order[number][3] for number in kept]


def _iou(one: Region, other: Region) -> float:
    y0, x0 = max(one.bbox[0], other.bbox[0]), max(one.bbox[1], other.bbox[1])
    y1, x1 = min(one.bbox[2], other.bbox[2]), min(one.bbox[3], other.bbox[3])
    inside = []
    for region in (one, other):
        y, x = region.bbox[:2]
        inside.append(region.mask[y0 - y : y1 - y, x0 - x : x1 - x] > 0)
    shared = np.count_nonzero(inside[0] & inside[1])
    return shared / (one.area + other.area - shared)
