"""Parts of planes that are larger than SAM's input. Imports no torch.

A prompt is answered in a part around it, twice as large each time that its mask reaches the edge.
Everything is looked for in overlapping parts of several sizes, the whole plane among them; there
masks at the edge of a part are dropped, since a neighbour or a larger part has them whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from ...base.regions import Region
from ...images.plane_source import Array, Box, Level, PlaneSource
from .prompts import FloatBox, Point, Prompt

_OVERLAP: Final = 4  # parts share a quarter with each neighbour
_COARSER: Final = 4  # times the size of the next larger parts
_WHOLE: Final = 1.5  # times the size of a part, a plane is not divided
_NEAR: Final = 20 / 1024  # of a part: a mask that ends so close to its edge is cut
_SAME: Final = 0.5  # IoU of two masks of one thing, one of them seen in a larger part


class Tile:
    """A part of a plane, as a plane."""

    def __init__(self, source: PlaneSource, box: Box) -> None:
        self._source = source
        self.box = box
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
    if box == (0, 0, *source.shape):
        return source
    return Tile(source, box)


def crop_around(prompt: Prompt, shape: tuple[int, int], side: int) -> Box:
    """Return a part with a prompt near its middle: ``side`` pixels or more, and twice the prompt.

    Prompts that are close to each other have the same part.
    """
    corners = [*prompt.positive]
    for y0, x0, y1, x1 in prompt.boxes:
        corners += [(y0, x0), (y1, x1)]
    low = np.min(corners, axis=0)
    high = np.max(corners, axis=0)
    # Room around what is prompted, so that its mask is not cut.
    while side < 2 * float((high - low).max()):
        side *= 2
    if _WHOLE * side >= max(shape):
        return (0, 0, *shape)
    step = side // 2
    # The part whose middle is nearest, of those on a grid of half their size.
    starts: list[int] = []
    for middle, length in zip(((low + high) / 2).tolist(), shape, strict=True):
        start = max(round((middle - step) / step) * step, 0)
        starts.append(min(start, max(length - side, 0)))
    y, x = starts
    return (y, x, min(y + side, shape[0]), min(x + side, shape[1]))


def to_crop(prompt: Prompt, box: Box) -> Prompt:
    """Return a prompt in the coordinates of a part; negative points elsewhere are left out."""
    y, x = box[:2]

    def moved(points: Sequence[Point]) -> tuple[Point, ...]:
        return tuple((row - y, column - x) for row, column in points)

    def is_near(point: Point) -> bool:
        return box[0] - 0.5 <= point[0] < box[2] and box[1] - 0.5 <= point[1] < box[3]

    boxes: list[FloatBox] = []
    for y0, x0, y1, x1 in prompt.boxes:
        boxes.append((y0 - y, x0 - x, y1 - y, x1 - x))
    return replace(
        prompt,
        boxes=tuple(boxes),
        positive=moved(prompt.positive),
        negative=moved([point for point in prompt.negative if is_near(point)]),
    )


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
    # Each size after the other; what is cut in all tiles of one is whole in a larger one.
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


class Sighting(NamedTuple):
    """A region as one tile shows it."""

    score: float
    tile: Box
    region: Region
    answer: Any  # what the caller gets back


def distinct(sightings: Sequence[Sighting]) -> list[Any]:
    """Return the answers without those that another tile shows better.

    Of one tile, boxes have been compared already: it may have a nucleus and its cell.
    """
    # The best first: a sighting is compared with better ones alone.
    order = sorted(sightings, key=lambda sighting: -sighting.score)
    boxes = np.array([sighting.region.bbox for sighting in order]).reshape(-1, 4)
    kept: list[int] = []
    for number, sighting in enumerate(order):
        box = boxes[number]
        kept_boxes = boxes[kept]
        starts = np.maximum(box[:2], kept_boxes[:, :2])
        ends = np.minimum(box[2:], kept_boxes[:, 2:])
        better = [order[kept[place]] for place in np.flatnonzero((starts < ends).all(1))]
        if not any(_is_same(sighting, another) for another in better):
            kept.append(number)
    return [order[number].answer for number in kept]


def _is_same(sighting: Sighting, another: Sighting) -> bool:
    """Return whether two tiles show one thing."""
    return sighting.tile != another.tile and _iou(sighting.region, another.region) > _SAME


def _iou(first: Region, second: Region) -> float:
    y0 = max(first.bbox[0], second.bbox[0])
    x0 = max(first.bbox[1], second.bbox[1])
    y1 = min(first.bbox[2], second.bbox[2])
    x1 = min(first.bbox[3], second.bbox[3])
    inside = []
    for region in (first, second):
        y, x = region.bbox[:2]
        inside.append(region.mask[y0 - y : y1 - y, x0 - x : x1 - x] > 0)
    shared = np.count_nonzero(inside[0] & inside[1])
    return shared / (first.area + second.area - shared)
