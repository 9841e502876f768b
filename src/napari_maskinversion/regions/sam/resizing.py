"""Planes of any size as SAM's input, and its maps as masks of planes. Imports no torch.

SAM enlarges every map to the whole image: 1.6 GB for each map of a plane of 20,000 x 20,000 pixels.
Here a map is stored as a crop around its positive values, and only that part is enlarged.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from ...base.regions import Region
from ...images.plane_source import PlaneSource, read_reduced

Array = npt.NDArray[Any]
Size = tuple[int, int]
IntBox = tuple[int, int, int, int]
# Sizes (H, W) to which a map is enlarged in turn, and how much of each is used (SAM's square input
# is padded below and to the right). The last one is the plane, or a part of it.
Stages = tuple[tuple[Size, Size], ...]

# Larger planes are first averaged down to at least this many times the input size; smaller ones are
# only resized, as in segment-anything.
_FINEST: Final = 4
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
    values: Array  # The part of the map that its mask depends on; empty if nothing is positive
    origin: Size  # First row and column of that part in the map
    box: IntBox  # Pixels of the enlarged map that may be positive
    size: Size  # Size of the whole map
    stages: Stages
    corner: Size = (0, 0)  # of the enlarged map in the plane

    def region(self, name: int) -> Region | None:
        """Return the mask at the plane's full resolution; None if it has no pixel there."""
        y0, x0, y1, x1 = self.box
        if not self.values.size or x0 >= x1:
            return None
        (y, x) = self.origin
        (height, width) = self.values.shape
        down, across = _enlarging(self.size, self.stages)
        wide = (across[x0:x1, x : x + width] @ self.values.T).T
        down = down[y0:y1, y : y + height]
        mask = np.empty((y1 - y0, x1 - x0), dtype=bool)
        strip = max(1, _STRIP // (x1 - x0))
        for top in range(0, len(mask), strip):
            mask[top : top + strip] = down[top : top + strip] @ wide > 0
        return Region.from_mask(name, mask, (y0 + self.corner[0], x0 + self.corner[1]))


def crop_map(score: float, logits: Array, stages: Stages) -> Candidate:
    """Crop a map (h, w) to the part that its mask needs."""
    size = (int(logits.shape[0]), int(logits.shape[1]))
    ends = []
    for axis, matrix in enumerate(_enlarging(size, stages)):
        positive = np.flatnonzero((logits > 0).any(1 - axis))
        if len(positive):
            span = slice(positive[0], positive[-1] + 1)
        else:
            span = slice(0, 0)
        reached = np.flatnonzero(np.diff(matrix[:, span].indptr))
        if len(reached):
            start = int(reached[0])
            stop = int(reached[-1]) + 1
        else:
            start = 0
            stop = 0
        needed = matrix[start:stop].indices
        ends.append((start, stop, int(needed.min(initial=size[axis])), int(needed.max(initial=-1))))
    (y0, y1, top, bottom), (x0, x1, left, right) = ends
    return Candidate(
        score=score,
        values=logits[top : bottom + 1, left : right + 1].copy(),
        origin=(top, left),
        box=(y0, x0, y1, x1),
        size=size,
        stages=stages,
    )


@lru_cache(maxsize=8)
def _enlarging(size: Size, stages: Stages) -> list[Any]:
    """Return the sparse matrices (pixels, map pixels) that enlarge a map along y and x.

    Each stage is bilinear, as torch's with ``align_corners=False``.
    """
    from scipy import sparse

    matrices = []
    for axis, count in enumerate(size):
        whole = sparse.eye_array(count, dtype=np.float32, format="csr")
        for targets, used in stages:
            have = whole.shape[0]
            rows = np.arange(used[axis])
            places = np.clip((rows + 0.5) * (have / targets[axis]) - 0.5, 0, have - 1)
            low = places.astype(np.intp)
            high = np.minimum(low + 1, have - 1)
            share = (places - low).astype(np.float32)
            pairs = np.r_[rows, rows], np.r_[low, high]
            step = sparse.csr_array((np.r_[1 - share, share], pairs), (len(rows), have))
            whole = step @ whole
        whole.eliminate_zeros()
        matrices.append(whole)
    return matrices
