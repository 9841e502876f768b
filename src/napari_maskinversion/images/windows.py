"""Plan the part of a plane that the model sees for each region: all of it, or a window.

A model's input has a few hundred pixels a side. On a plane of 20,000 pixels, a region of 40 is a
tenth of a token. So the model sees windows: a region's box with some context, read at the pyramid
level that has enough pixels. Neighbours of similar size share a window, because encoding an image
costs more than inverting a region.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from ..base.errors import ConfigError
from ..base.regions import Region, Regions
from ..base.validation import Config, setting
from .plane_source import Level

FloatBox = tuple[float, float, float, float]
Array = npt.NDArray[Any]

# "auto": regions fewer tokens across than this get a window.
_MIN_TOKENS: Final = 3.0
# "auto": with this many, a window is encoded at the model's own resolution: as good, four times
# faster (benchmarks/window_sides.py).
_ENOUGH_TOKENS: Final = 5.0
# "auto": the model never sees the whole of planes this many times larger than its input.
_FAR_LARGER: Final = 8.0
MODES: Final = {
    "auto": "automatic windows",
    "whole": "the whole image",
    "fixed": "windows of a size",
}
"""Titles of the modes of `WindowConfig`."""
# Largest upsampling; more adds no detail.
_ENLARGE: Final = 4


class WindowConfig(Config):
    """How regions are assigned to windows."""

    # "whole" shows the model the whole plane, "fixed" windows of `side` pixels; "auto" the whole
    # plane if a region has enough tokens there, else windows that fit the regions
    mode: Literal["auto", "whole", "fixed"] = "auto"
    side: int = 0  # Plane pixels of a fixed window. Larger regions get their own window.
    # Window side divided by the longer side of a region's box; at least 1
    context: float = setting(
        2.0,
        "Size of windows",
        "Relative to the longer side of the region; more shows more of what is around it.",
        ge=1,
        unit="x",
        ui_max=20,
    )

    @model_validator(mode="after")
    def _large_enough(self) -> Self:
        if self.mode == "fixed" and self.side < 8:
            raise ConfigError(f"A window has a side of at least 8 pixels; got {self.side}.")
        return self

    @property
    def text(self) -> str:
        """What `parse` reads: "auto", "whole", or the side in pixels."""
        if self.mode == "fixed":
            return str(self.side)
        return self.mode

    @classmethod
    def parse(cls, text: str, context: float = 2.0) -> WindowConfig:
        """Parse "auto", "whole", or the side of a window in pixels."""
        word = text.strip().lower()
        if word == "auto":
            return cls(mode="auto", context=context)
        if word == "whole":
            return cls(mode="whole", context=context)
        try:
            side = float(word)
        except ValueError:
            side = math.nan
        if not math.isfinite(side):
            raise ConfigError(
                f"A window is 'auto', 'whole' or a number of pixels, such as 512; got {text!r}."
            )
        return cls(mode="fixed", side=round(side), context=context)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of a plane, encoded as one image."""

    # ``(y0, x0, y1, x1)`` in plane pixels, at pixel edges: (0, 0, H, W) is the plane. Extends
    # beyond the plane by less than one of its own pixels.
    box: FloatBox
    level: int  # Pyramid level of the source
    level_box: tuple[int, int, int, int]  # The box in pixels of the level
    reduce: int  # Pixels of the level averaged into one along each axis
    members: tuple[int, ...]  # Indices of its regions
    whole: bool  # Whether the window is the whole plane
    resolution: int  # Side of the model's input in pixels

    @property
    def pixels(self) -> tuple[int, int]:
        """Pixels (h, w) of the image that the model sees."""
        y0, x0, y1, x1 = self.level_box
        return -(-(y1 - y0) // self.reduce), -(-(x1 - x0) // self.reduce)


def plan_windows(
    regions: Regions,
    levels: Sequence[Level],
    *,
    resolution: int,
    patch: int,
    config: WindowConfig | None = None,
    native: int | None = None,
) -> tuple[Window, ...]:
    """Assign each region to one window; ``native`` is the side that suffices for large regions."""
    config = config or WindowConfig()
    height, width = regions.shape
    if not len(regions):
        return ()
    boxes = np.array([region.bbox for region in regions], dtype=np.float64)
    sizes = np.maximum(boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1])
    least = max(8.0, resolution / _ENLARGE)
    own_sides = np.maximum(config.context * sizes, least)
    whole = np.zeros(len(boxes), dtype=bool)
    if config.mode == "whole":
        whole[:] = True
    elif config.mode == "auto":
        longer = max(height, width)
        # The aspect ratio is kept, so the input has resolution ** 2 pixels in any shape.
        token = patch * math.sqrt(height * width) / resolution
        if longer <= resolution:
            whole[:] = True
        elif longer <= _FAR_LARGER * resolution:
            whole = sizes >= _MIN_TOKENS * token
        whole |= own_sides >= longer
    windows: list[Window] = []
    if whole.any():
        members = np.flatnonzero(whole)
        windows.append(_window((0, 0, height, width), levels, resolution, members, whole=True))
    cropped = np.flatnonzero(~whole)
    side = own_sides
    if config.mode == "fixed":
        side = np.where(own_sides <= config.side, float(config.side), own_sides)
    else:
        # Rounded up to octaves, so that neighbours of similar size share a window.
        side = least * 2.0 ** np.ceil(np.log2(own_sides / least) - 1e-9)
    grouped = []
    for length in np.unique(side[cropped]):
        chosen = cropped[side[cropped] == length]
        if config.mode == "fixed" and length != config.side:
            grouped += [(boxes[[i]], length, np.array([i])) for i in chosen]
            continue
        # Least context of a region on the side where a shared window ends.
        margin = sizes[chosen] * (config.context - 1) / 4
        grown = boxes[chosen] + np.stack([-margin, -margin, margin, margin], axis=1)
        grown = np.clip(grown, 0, [height, width, height, width])
        for group in share(grown, length):
            grouped.append((grown[group], length, chosen[group]))
    planned = []
    for inside, length, members in grouped:
        if len(members) == 1 and config.mode == "auto":
            length = own_sides[members[0]]
        box = _around(inside, length, (height, width))
        side_of_input = resolution
        if native is not None and config.mode == "auto":
            token = patch * math.sqrt((box[2] - box[0]) * (box[3] - box[1])) / native
            if sizes[members].min() >= _ENOUGH_TOKENS * token:
                side_of_input = native
        planned.append(_window(box, levels, side_of_input, members, whole=False))
    # Inputs of one size can go together.
    planned.sort(key=lambda window: (window.resolution, window.box))
    return (*windows, *planned)


def whole_window(levels: Sequence[Level], *, resolution: int) -> Window:
    """Return the window of the whole plane, without regions."""
    height, width = levels[0].shape
    return _window((0, 0, height, width), levels, resolution, np.zeros(0, np.intp), whole=True)


def share(boxes: Array, side: float) -> list[npt.NDArray[np.intp]]:
    """Group boxes greedily from the top so that each group fits a square of ``side`` pixels.

    Shapes: boxes (n, 4).
    """
    order = np.lexsort((boxes[:, 1], boxes[:, 0]))
    y0, x0, y1, x1 = boxes[order].T
    left = np.ones(len(boxes), dtype=bool)
    groups = []
    for first in range(len(boxes)):
        if not left[first]:
            continue
        # Boxes are sorted by their upper edge, so candidates end here.
        stop = int(np.searchsorted(y0, y0[first] + side))
        near = first + np.flatnonzero(
            left[first:stop]
            & (y1[first:stop] <= y0[first] + side)
            & (x1[first:stop] > x0[first] - side)
            & (x0[first:stop] < x0[first] + side)
        )
        # Try the left edge of each candidate as that of the window; keep the best.
        edges = np.unique(x0[near])
        edges = edges[(edges <= x0[first]) & (edges + side >= x1[first])]
        edges = edges[:: max(1, len(edges) // 32)]
        edges = np.union1d(edges, x0[first])
        caught = (x0[near] >= edges[:, None]) & (x1[near] <= edges[:, None] + side)
        members = near[caught[int(caught.sum(axis=1).argmax())]]
        members = np.union1d(members, [first])
        left[members] = False
        groups.append(np.sort(order[members]))
    return groups


def _around(boxes: Array, side: float, shape: tuple[int, int]) -> FloatBox:
    """Return a square of ``side`` pixels centred on boxes, shifted to lie in the plane."""
    low = boxes[:, :2].min(axis=0)
    high = boxes[:, 2:].max(axis=0)
    ends = []
    for bottom, top, limit in zip(low, high, shape, strict=True):
        length = min(max(side, top - bottom), float(limit))
        start = min(max(0.0, (bottom + top - length) / 2), limit - length)
        ends.append((start, start + length))
    return ends[0][0], ends[1][0], ends[0][1], ends[1][1]


def _window(
    box: FloatBox, levels: Sequence[Level], resolution: int, members: Array, *, whole: bool
) -> Window:
    """Choose the level for a box, and round the box to its pixels."""
    shorter = min(box[2] - box[0], box[3] - box[1])
    longer = max(box[2] - box[0], box[3] - box[1])
    # Plane pixels per input pixel, along each side.
    target = max(1.0, math.sqrt(shorter * longer) / resolution)
    level = max(i for i, item in enumerate(levels) if max(item.step) <= target * 1.001 or i == 0)
    chosen = levels[level]
    reduce = max(1, int(target / max(chosen.step) + 1e-3))
    ends: list[tuple[int, int]] = []
    for axis in (0, 1):
        limit = chosen.shape[axis]
        step = chosen.step[axis]
        low = max(0, math.floor(box[axis] / step + 1e-6))
        high = min(limit, math.ceil(box[axis + 2] / step - 1e-6))
        ends.append((low, max(high, low + 1)))
    (y0, y1), (x0, x1) = ends
    rows = -(-(y1 - y0) // reduce) * reduce
    columns = -(-(x1 - x0) // reduce) * reduce
    sy, sx = chosen.step
    return Window(
        box=(y0 * sy, x0 * sx, (y0 + rows) * sy, (x0 + columns) * sx),
        level=level,
        level_box=(y0, x0, y0 + rows, x0 + columns),
        reduce=reduce,
        members=tuple(int(member) for member in members),
        whole=whole,
        resolution=resolution,
    )


def regions_in(window: Window, regions: Regions) -> Regions:
    """Convert a window's regions to its own pixels, as coverage if these are larger."""
    height, width = window.pixels
    y0, x0, y1, x1 = window.box
    step = ((y1 - y0) / height, (x1 - x0) / width)
    converted = []
    for member in window.members:
        region = regions[member]
        if step == (1.0, 1.0):
            converted.append(_shifted(region, int(y0), int(x0), (height, width)))
        else:
            converted.append(_covered(region, (y0, x0), step, (height, width)))
    return Regions((height, width), converted)


def _shifted(region: Region, y0: int, x0: int, shape: tuple[int, int]) -> Region:
    top, left, bottom, right = region.bbox
    a = max(top - y0, 0)
    b = max(left - x0, 0)
    c = min(bottom - y0, shape[0])
    d = min(right - x0, shape[1])
    mask = region.mask[a + y0 - top : c + y0 - top, b + x0 - left : d + x0 - left]
    return Region(region.id, (a, b, c, d), mask, region.members)


def _covered(
    region: Region, corner: tuple[float, float], step: tuple[float, float], shape: tuple[int, int]
) -> Region:
    """Compute how much of each window pixel (0..1) a region of smaller pixels covers."""
    values: Array = region.mask
    lows = []
    highs = []
    for axis in (0, 1):
        start = region.bbox[axis]
        stop = region.bbox[axis + 2]
        # Each plane pixel belongs to the window pixel that contains its centre.
        places = ((np.arange(start, stop) + 0.5 - corner[axis]) / step[axis]).astype(np.intp)
        places = np.clip(places, 0, shape[axis] - 1)
        first = np.flatnonzero(np.diff(places, prepend=-1))
        values = np.add.reduceat(values, first, axis=axis, dtype=np.float32)
        lows.append(int(places[0]))
        highs.append(int(places[-1]) + 1)
    # Pixels cut off by the edge of the plane count in part.
    cover = np.minimum(values / np.float32(step[0] * step[1]), 1.0).astype(np.float32)
    return Region(region.id, (lows[0], lows[1], highs[0], highs[1]), cover, region.members)
