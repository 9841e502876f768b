"""What the numbers of a YOLO file mean: all its lines together decide, never one alone.

After its class a line has a box (4 numbers), an outline, the four corners of an oriented box, or a
pose: a box and points, each with or without its visibility. The confidence of a prediction and the
number of a track may follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any, Final

import numpy as np

from .polygons import fault, ring

Numbers = list[float]
_SLACK: Final = 0.02  # shares of the image by which a box may lie beyond it
_PLANAR: Final = 2.0  # pixels by which corners of an oriented box may miss a rectangle
_TANGLED: Final = 0.06  # share of the pairs of sides that cross; a slip among 8 corners has 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the numbers of a line are read; ``kind`` is for the user."""

    kind: str
    track: bool = False
    score: bool = False
    drawn: int | None = None  # numbers of the shape, if all others are left out

    @property
    def text(self) -> str:
        """What the lines are, in words."""
        extras = (("confidence", self.score), ("track numbers", self.track))
        more = []
        for word, has in extras:
            if has:
                more.append(word)
        return self.kind + (f" with {' and '.join(more)}" if more else "")

    def parts(self, numbers: Numbers) -> tuple[Numbers, float | None, int | None]:
        """Return the numbers of a line's shape, its confidence and its track number."""
        track = None
        if self.track:
            if numbers[-1] >= 0:  # -1 is no track
                track = int(numbers[-1])
            numbers = numbers[:-1]
        score = None
        if self.score and (self.drawn is not None or len(numbers) % 2):
            score = numbers[-1]
        return numbers[: self.drawn or len(numbers) // 2 * 2], score, track


def layout_of(
    files: Sequence[Sequence[Numbers]], shape: tuple[int, int], points: Any = None
) -> Layout:
    """Return how to read the lines of files of one kind: the file itself, and its neighbours.

    ``points`` are number and length of a pose's points (``kpt_shape``), if a file says so.
    """
    lines = list(chain.from_iterable(files))
    if not lines:
        return Layout(kind="boxes")
    lengths = {len(line) for line in lines}
    track = _are_tracked(files)
    lines_left = [line[: len(line) - track] for line in lines]
    flat = Layout(kind="outlines", track=track, score=any(len(line) % 2 for line in lines_left))
    outlines = [flat.parts(line)[0] for line in lines]
    if all(len(outline) == 4 for outline in outlines):
        return Layout(kind="boxes", track=track, score=flat.score)
    if len(lengths) == 1:
        if _are_turned(outlines, shape):
            return Layout(kind="oriented boxes", track=track, score=flat.score)
        numbered = _are_numbers(files)
        extra = _pose(lines, points, numbered)
        if extra is not None and (points or np.mean([*map(_disorder, outlines)]) > _TANGLED):
            track = numbered and extra > 0
            return Layout(kind="poses", track=track, score=extra > track, drawn=4)
    return flat


def _are_numbers(files: Sequence[Sequence[Numbers]]) -> bool:
    """Return whether all lines end with whole numbers that are more than shares of the image.

    Where all are 0 and 1, each must be written so, not as 1.0, and only once in a file.
    """
    ends: list[float] = []
    once = True
    for file in files:
        ends_of_file = [line[-1] for line in file]
        ends += ends_of_file
        if len(set(ends_of_file)) < len(ends_of_file):
            once = False
    if any(not 0 <= end <= 1 for end in ends):
        return all(end % 1 == 0 and end >= -1 for end in ends)
    return once and 1 in ends and all(isinstance(end, int) for end in ends)


def _are_tracked(files: Sequence[Sequence[Numbers]]) -> bool:
    lines = list(chain.from_iterable(files))
    if not _are_numbers(files) or any(len(line) < 5 or max(line[:-1]) > 1.5 for line in lines):
        return False
    # Coordinates and confidences are 0 to 1; with both an outline has an odd count.
    if any(not 0 <= line[-1] <= 1 for line in lines):
        return True
    if any(len(line) % 2 for line in lines):
        return False
    return all(_is_box(line) if len(line) == 6 else _ends_apart(line) for line in lines)


def _ends_apart(line: Numbers) -> bool:
    """Return whether the last two numbers are no corner of the outline that the others are."""
    lowest = max(line[1:-2:2])  # an outline that reaches the lower border has neighbours there
    stray = lowest < 0.85 or not _is_outline(line) or not _near(line[-2:], line[:-2])
    return line[-1] == 1 and stray and _is_outline(line[:-2])


def _is_box(line: Numbers) -> bool:
    """Return whether four numbers are the centre and size of a box in the image."""
    centre = np.array(line[:2])
    size = np.array(line[2:4])
    low = centre - size / 2
    high = centre + size / 2
    return bool(size.min() > 0 and low.min() >= -_SLACK and high.max() <= 1 + _SLACK)


def _is_outline(line: Numbers) -> bool:
    """Return whether numbers are plausible as corners: a simple ring, the second no stray."""
    if len(line) < 6 or max(line) > 1 + _SLACK:
        return False
    return not _is_stray(line) and not fault([ring(np.reshape(line, (-1, 2)))])


def _is_stray(line: Numbers) -> bool:
    """Return whether the second corner is far away, or several at 0: points that are not seen."""
    unseen = ~np.reshape(line, (-1, 2))[1:].any(axis=1)
    return bool(unseen.sum() > 1) or not _near(line[2:4], line[:2] + line[4:])


def _disorder(line: Numbers) -> float:
    """Return how far numbers are from an outline: 0 to 1, and little for one with a slip."""
    if len(line) < 6 or max(line) > 1 + _SLACK or _is_stray(line):
        return 1
    corners = np.reshape(line, (-1, 2))
    sides = np.roll(corners, -1, axis=0) - corners
    ways = corners[None] - corners[:, None]  # from each corner to the others
    left = np.sign(sides[:, None, 0] * ways[..., 1] - sides[:, None, 1] * ways[..., 0])
    apart = left * np.roll(left, -1, axis=1) < 0  # the ends of a side lie on both sides of a line
    count = len(corners)
    if count > 4:
        return float((apart & apart.T).sum() / (count * (count - 3)))
    return 0


def _near(point: Numbers, outline: Numbers) -> bool:
    """Return whether a point lies in the box of others, or less than its size beside it."""
    corners = np.reshape(outline, (-1, 2))
    low = corners.min(axis=0)
    high = corners.max(axis=0)
    reach = (high - low).max() * 0.75 + _SLACK
    return bool(((point >= low - reach) & (point <= high + reach)).all())


def _are_turned(lines: Sequence[Numbers], shape: tuple[int, int]) -> bool:
    """Return whether all lines are corners of rectangles, and one is turned."""
    if any(len(line) != 8 for line in lines):
        return False
    corners = np.reshape(lines, (-1, 4, 2)) * shape[::-1]
    sides = np.roll(corners, -1, axis=1) - corners
    closed = np.abs(sides[:, 0] + sides[:, 2]).max() <= _PLANAR
    slant = np.abs((sides[:, 0] * sides[:, 1]).sum(axis=1)) / np.linalg.norm(sides, axis=2).max(1)
    turned = np.abs(sides).min(axis=2).max() > _PLANAR
    return bool(closed and turned and slant.max() <= _PLANAR)


def _pose(lines: Sequence[Numbers], points: Any, numbered: bool) -> int | None:
    """Return how many numbers follow a pose in lines of one length; None if they are no poses."""
    length = len(lines[0]) - 4
    if points:
        extra = int(length - points[0] * points[1])
        if extra in (0, 1, 2):
            return extra
        return None
    # Every third number is the visibility of a point, which is whole.
    third_numbers = chain.from_iterable(line[6::3] for line in lines)
    whole = all(number % 1 == 0 for number in third_numbers)
    extras: tuple[int, ...] = (0, 1)
    if numbered and not (length % 3 == 0 and whole):
        extras = (1, 2, 0)
    for extra, size in product(extras, (2, 3)):
        ends = length + 4 - extra
        fits = length > extra and (length - extra) % size == 0
        if fits and all(_is_pose(line[:ends], size) for line in lines):
            return extra
    return None


def _is_pose(line: Numbers, size: int) -> bool:
    """Return whether a box in the image is followed by points in it; those at 0 are not seen."""
    points = np.reshape(line[4:], (-1, size))
    seen = points[(points[:, :2] != 0).any(axis=1)]
    limit = np.array([1.01, 1.01, 2])[:size]
    if not _is_box(line) or (seen < 0).any() or (points > limit).any():
        return False
    away = np.abs(seen[:, :2] - line[:2]) > 0.75 * np.array(line[2:4])
    if len(seen):
        return bool(away.any(axis=1).mean() <= 0.2)
    return True
