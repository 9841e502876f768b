"""Candidate masks: small maps of logits, enlarged only where needed. Imports no torch.

SAM enlarges every map to the whole image: 1.6 GB for each map of a plane of 20,000 x 20,000 pixels.
Here a map is stored as a crop around its positive values, and only that part is enlarged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.regions import Region

Array = npt.NDArray[Any]
Size = tuple[int, int]
IntBox = tuple[int, int, int, int]

# Map pixels around the positive values: bilinear enlarging reads one more at each stage.
_MARGIN: Final = 3
# Plane pixels enlarged at once.
_STRIP: Final = 4_000_000


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Candidate:
    """One candidate mask of an object."""

    score: float  # IoU with the object as predicted by SAM: about 0..1, higher is better
    values: Array  # The part of the map around its positive values; empty if there are none
    origin: Size  # First row and column of that part in the map
    size: Size  # Size of the whole map
    # Sizes (H, W) to which the map is enlarged in turn, and how much of each is used (SAM's square
    # input is padded below and to the right). The last one is the plane.
    stages: tuple[tuple[Size, Size], ...]

    @property
    def empty(self) -> bool:
        """Whether the mask has no pixel."""
        return self.values.size == 0

    def region(self, name: int) -> Region | None:
        """Return the mask at the plane's full resolution; None if it has no pixel there."""
        if self.empty:
            return None
        rows, columns = _bounds(self.values)
        box = (
            rows[0] + self.origin[0],
            columns[0] + self.origin[1],
            rows[1] + self.origin[0],
            columns[1] + self.origin[1],
        )
        size = self.size
        for target, counts in self.stages:
            box = _reach(box, size, target, counts)
            size = counts
        y0, x0, y1, x1 = box
        if y0 >= y1 or x0 >= x1:
            return None
        mask = np.empty((y1 - y0, x1 - x0), dtype=bool)
        strip = max(1, _STRIP // (x1 - x0))
        for top in range(y0, y1, strip):
            bottom = min(top + strip, y1)
            mask[top - y0 : bottom - y0] = self._enlarged((top, x0, bottom, x1)) > 0
        return Region.from_mask(name, mask, (y0, x0))

    def _enlarged(self, box: IntBox) -> Array:
        """Return the logits of a box of the plane, through all stages."""
        boxes = [box]
        sizes = [self.size, *(counts for _, counts in self.stages)]
        for (target, _), source in zip(self.stages[::-1], sizes[-2::-1], strict=True):
            boxes.append(_needed(boxes[-1], source, target))
        values, origin, size = self.values, self.origin, self.size
        for (target, counts), wanted in zip(self.stages, boxes[-2::-1], strict=True):
            values = enlarge(values, origin, size, target, wanted)
            origin, size = (wanted[0], wanted[1]), counts
        return values


def crop_map(score: float, logits: Array, stages: Sequence[tuple[Size, Size]]) -> Candidate:
    """Crop a map (h, w) to the part that its mask needs."""
    rows = np.flatnonzero((logits > 0).any(1))
    columns = np.flatnonzero((logits > 0).any(0))
    size = (int(logits.shape[0]), int(logits.shape[1]))
    if not len(rows):
        empty = np.zeros((0, 0), np.float32)
        return Candidate(score=score, values=empty, origin=(0, 0), size=size, stages=tuple(stages))
    y0, x0 = max(int(rows[0]) - _MARGIN, 0), max(int(columns[0]) - _MARGIN, 0)
    part = logits[y0 : int(rows[-1]) + _MARGIN + 1, x0 : int(columns[-1]) + _MARGIN + 1]
    return Candidate(
        score=score, values=part.copy(), origin=(y0, x0), size=size, stages=tuple(stages)
    )


def enlarge(values: Array, origin: Size, size: Size, target: Size, box: IntBox) -> Array:
    """Enlarge a map bilinearly inside a box, as torch does with ``align_corners=False``.

    Shapes: returns (y1 - y0, x1 - x0), float32.
    """
    y0, x0, y1, x1 = box
    low, high, share = _sources(y0, y1, size[0], target[0])
    last = values.shape[0] - 1
    top = np.clip(low - origin[0], 0, last)
    below = np.clip(high - origin[0], 0, last)
    part = values.astype(np.float32, copy=False)
    rows = part[top] * (1 - share)[:, None] + part[below] * share[:, None]
    low, high, share = _sources(x0, x1, size[1], target[1])
    last = values.shape[1] - 1
    left = np.clip(low - origin[1], 0, last)
    right = np.clip(high - origin[1], 0, last)
    return np.asarray(rows[:, left] * (1 - share) + rows[:, right] * share)


def _sources(start: int, stop: int, size: int, target: int) -> tuple[Array, Array, Array]:
    """Return the two source pixels of each target pixel, and the weight of the second one."""
    positions = np.maximum((np.arange(start, stop) + 0.5) * (size / target) - 0.5, 0)
    low = np.minimum(np.floor(positions).astype(np.intp), size - 1)
    share = (positions - low).astype(np.float32)
    return low, np.minimum(low + 1, size - 1), share


def _needed(box: IntBox, size: Size, target: Size) -> IntBox:
    """Return the box of source pixels that a box of the target depends on."""
    top = _sources(box[0], box[0] + 1, size[0], target[0])[0][0]
    left = _sources(box[1], box[1] + 1, size[1], target[1])[0][0]
    bottom = _sources(box[2] - 1, box[2], size[0], target[0])[1][0]
    right = _sources(box[3] - 1, box[3], size[1], target[1])[1][0]
    return int(top), int(left), int(bottom) + 1, int(right) + 1


def _reach(box: IntBox, size: Size, target: Size, counts: Size) -> IntBox:
    """Return a box that contains all target pixels that depend on a box of the source."""
    edges = []
    for first, stop, have, want, limit in zip(box[:2], box[2:], size, target, counts, strict=True):
        factor = want / have
        low = math.floor((first - 0.5) * factor - 0.5)
        high = math.ceil((stop + 0.5) * factor - 0.5) + 1
        edges.append((min(max(low, 0), limit), min(max(high, 0), limit)))
    return edges[0][0], edges[1][0], edges[0][1], edges[1][1]


def _bounds(mask: Array) -> tuple[Size, Size]:
    """Return rows and columns (first, end) that contain positive values."""
    rows, columns = np.flatnonzero((mask > 0).any(1)), np.flatnonzero((mask > 0).any(0))
    return (int(rows[0]), int(rows[-1]) + 1), (int(columns[0]), int(columns[-1]) + 1)
