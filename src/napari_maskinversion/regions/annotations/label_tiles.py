"""Write label images of any size tile by tile."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.atomic_files import atomic_path
from ...base.regions import Region
from .annotation import binary_mask

TILE: Final = 512
Array = npt.NDArray[Any]
Box = tuple[int, int, int, int]
Pairs = Sequence[tuple[int, Region]]


def write_tiles(
    path: Path,
    pages: Sequence[Pairs],
    shape: tuple[int, int],
    kind: np.dtype[Any],
    metadata: Mapping[str, Any] | None = None,
    software: str | None = None,
) -> set[tuple[int, int]]:
    """Write a TIFF of regions; where they overlap, the smaller one is on top.

    Does not use a memory map: a full disk would kill the process.
    """
    import tifffile

    seen: set[tuple[int, int]] = set()
    size = shape if len(pages) == 1 else (len(pages), *shape)
    tifffile.imwrite(
        path,
        _tiles(pages, shape, kind, seen),
        shape=size,
        dtype=kind,
        tile=(TILE, TILE),
        photometric="minisblack",
        compression="zlib",
        byteorder="<",
        bigtiff=int(np.prod(size)) * kind.itemsize > 2**32 - 2**25,
        software=software,
        metadata={"axes": "YX" if len(pages) == 1 else "QYX", **(metadata or {})},
    )
    return seen


def _tiles(
    pages: Sequence[Pairs],
    shape: tuple[int, int],
    kind: np.dtype[Any],
    seen: set[tuple[int, int]],
) -> Iterator[bytes]:
    """Yield compressed tiles; empty tiles, often the majority, are compressed once."""
    empty = zlib.compress(bytes(TILE * TILE * kind.itemsize))
    for number, page in enumerate(pages):
        drawn = DrawnLabels(page, shape, kind)
        for y in range(0, shape[0], TILE):
            for x in range(0, shape[1], TILE):
                if drawn.is_empty((y, x, y + TILE, x + TILE)):
                    yield empty
                    continue
                tile = drawn.draw((y, x, y + TILE, x + TILE))
                seen.update((number, int(value)) for value in np.unique(tile) if value)
                yield zlib.compress(tile.tobytes())


class DrawnLabels:
    """A label image of regions that is drawn where it is read; the smaller region is on top."""

    ndim = 2

    def __init__(self, pairs: Pairs, shape: tuple[int, int], kind: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, kind
        # Largest first, so that regions inside it stay visible.
        self._pairs = sorted(pairs, key=lambda pair: (-pair[1].area, pair[1].bbox))
        self._boxes = np.array([region.bbox for _, region in self._pairs]).reshape(-1, 4)

    def __getitem__(self, key: tuple[slice, slice]) -> Array:
        rows, columns = (part.indices(side) for part, side in zip(key, self.shape, strict=True))
        box = (rows[0], columns[0], rows[1], columns[1])
        return self.draw(box)[:: rows[2], :: columns[2]]

    def _inside(self, box: Box) -> Array:
        low, high = self._boxes[:, :2] < box[2:], self._boxes[:, 2:] > box[:2]
        return np.flatnonzero(low.all(1) & high.all(1))

    def is_empty(self, box: Box) -> bool:
        """Return whether no region's box reaches into a box."""
        return not len(self._inside(box))

    def draw(self, box: Box) -> Array:
        """Draw a box ``(y0, x0, y1, x1)``, which may extend beyond the plane."""
        tile = np.zeros((box[2] - box[0], box[3] - box[1]), self.dtype)
        for place in self._inside(box):
            value, region = self._pairs[place]
            _draw(tile, box[0], box[1], region.bbox, binary_mask(region), value)
        return tile


def _draw(tile: Array, y: int, x: int, box: Box, mask: Array, value: int) -> None:
    y0, x0, y1, x1 = box
    top, left = max(y0, y), max(x0, x)
    bottom, right = min(y1, y + tile.shape[0]), min(x1, x + tile.shape[1])
    part = mask[top - y0 : bottom - y0, left - x0 : right - x0]
    tile[top - y : bottom - y, left - x : right - x][part] = value


def draw_labels(regions: Sequence[Region], shape: tuple[int, int]) -> tuple[Array, list[int]]:
    """Return a label image (H, W) of the regions' ids, and the ids that others hide."""
    pairs = [(region.id, region) for region in regions]
    labels = DrawnLabels(pairs, shape, _kind_for(regions)).draw((0, 0, *shape))
    hidden = []
    for region in regions:
        y0, x0, y1, x1 = region.bbox
        if not (labels[y0:y1, x0:x1] == region.id).any():
            hidden.append(region.id)
    return labels, hidden


def write_labels(path: Path, regions: Sequence[Region], shape: tuple[int, int]) -> list[int]:
    """Write the label image that `draw_labels` returns as a TIFF; return the ids that it hides."""
    pairs = [(region.id, region) for region in regions]
    with atomic_path(path) as part:
        visible = write_tiles(part, [pairs], shape, _kind_for(regions))
    return [region.id for region in regions if (0, region.id) not in visible]


def _kind_for(regions: Sequence[Region]) -> np.dtype[Any]:
    return np.dtype("<u2" if all(region.id < 2**16 for region in regions) else "<u4")
