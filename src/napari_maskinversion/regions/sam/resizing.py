"""Planes of any size as SAM's input, and its maps as masks of planes. Imports no torch.

SAM enlarges every map to the whole image: 1.6 GB for each map of a plane of 20,000 x 20,000 pixels.
Here a map is stored as a crop around its positive values, and only that part is enlarged.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from ...base.regions import Region
from ...images.plane_source import PlaneSource, read_reduced

Array = npt.NDArray[Any]
Size = tuple[int, int]
IntBox = tuple[int, int, int, int]

# Larger planes are first averaged down to at least this many times the input size; smaller ones are
# only resized, as in segment-anything.
_FINEST: Final = 4
# Map pixels around the positive values: bilinear enlarging reads one more at each stage.
_MARGIN: Final = 3
# Plane pixels enlarged at once.
_STRIP: Final = 4_000_000


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SamInput:
    """A plane resized so that its longer side is that of the model's input.

    Shapes: pixels (h, w, 3), uint8.
    """

    pixels: npt.NDArray[np.uint8]
    plane: tuple[int, int]  # Pixels (H, W) of the plane
    key: str  # Hash of the pixels and sizes

    @property
    def size(self) -> tuple[int, int]:
        """Pixels (h, w) of the input."""
        return int(self.pixels.shape[0]), int(self.pixels.shape[1])

    @property
    def scale(self) -> tuple[float, float]:
        """Input pixels per plane pixel along y and x."""
        return self.size[0] / self.plane[0], self.size[1] / self.plane[1]


def resize_for_sam(source: PlaneSource, side: int, *, square: bool = False) -> SamInput:
    """Read and resize a plane; a large one is never in memory as a whole."""
    source.check()
    height, width = source.shape
    size = (side, side) if square else fitted(source.shape, side)
    fitting = [i for i, level in enumerate(source.levels) if max(level.shape) >= side]
    level = max(fitting, default=0)
    rows, columns = source.levels[level].shape
    reduce = max(1, max(rows, columns) // (_FINEST * side))
    whole = (0, 0, -(-rows // reduce) * reduce, -(-columns // reduce) * reduce)
    picture = Image.fromarray(_as_rgb(read_reduced(source, level, whole, reduce)))
    pixels = np.asarray(picture.resize((size[1], size[0]), Image.Resampling.BILINEAR))
    key = hashlib.blake2b(pixels.tobytes(), digest_size=16)
    key.update(repr((size, source.shape)).encode())
    return SamInput(pixels=pixels, plane=(height, width), key=key.hexdigest())


def fitted(shape: Size, side: int) -> Size:
    """Return the size of a plane whose longer side is ``side``, rounded as in segment-anything."""
    scale = side / max(shape)
    return max(1, int(shape[0] * scale + 0.5)), max(1, int(shape[1] * scale + 0.5))


def _as_rgb(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Convert values of a source to RGB of eight bits."""
    kind = values.dtype.kind
    if kind == "b":
        values = values.astype(np.uint8) * np.uint8(255)
    elif kind == "f":
        values = np.round(np.clip(values, 0, 1) * 255).astype(np.uint8)
    elif values.dtype != np.uint8:
        values = np.round(values * (255 / np.iinfo(values.dtype).max)).astype(np.uint8)
    if values.ndim == 2:
        values = values[:, :, None]
    elif values.shape[2] == 4:  # composited over black
        values = np.round(values[:, :, :3] * (values[:, :, 3:] / 255)).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(values[:, :, :3], (*values.shape[:2], 3)))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Candidate:
    """One candidate mask of an object."""

    score: float  # IoU with the object as predicted by SAM: about 0..1, higher is better
    values: Array  # The part of the map around its positive values; empty if there are none
    origin: Size  # First row and column of that part in the map
    box: IntBox  # Around the positive values, in the map
    size: Size  # Size of the whole map
    # Sizes (H, W) to which the map is enlarged in turn, and how much of each is used (SAM's square
    # input is padded below and to the right). The last one is the plane, or a part of it.
    stages: tuple[tuple[Size, Size], ...]
    corner: Size = (0, 0)  # of that part in the plane

    @property
    def empty(self) -> bool:
        """Whether the mask has no pixel."""
        return self.values.size == 0

    def region(self, name: int) -> Region | None:
        """Return the mask at the plane's full resolution; None if it has no pixel there."""
        if self.empty:
            return None
        box, size = self.box, self.size
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
        return Region.from_mask(name, mask, (y0 + self.corner[0], x0 + self.corner[1]))

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
    box = (0, 0, 0, 0)
    if len(rows):
        box = (int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1)
    y, x = max(box[0] - _MARGIN, 0), max(box[1] - _MARGIN, 0)
    part = logits[y : box[2] + _MARGIN, x : box[3] + _MARGIN] if len(rows) else logits[:0, :0]
    return Candidate(
        score=score,
        values=part.copy(),
        origin=(y, x),
        box=box,
        size=(int(logits.shape[0]), int(logits.shape[1])),
        stages=tuple(stages),
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
