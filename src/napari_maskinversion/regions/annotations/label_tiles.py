"""Write label images of any size tile by tile."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.regions import Region
from .annotation import binary_mask

TILE: Final = 512
Array = npt.NDArray[Any]
Pairs = Sequence[tuple[int, Region]]


def write_tiles(
    path: Path,
    pages: Sequence[Pairs],
    shape: tuple[int, int],
    kind: np.dtype[Any],
    metadata: Mapping[str, Any] | None = None,
) -> set[tuple[int, int]]:
    """Write a TIFF of regions; where they overlap, the smaller one is on top.

    Does not use a memory map: a full disk would kill the process.

    Parameters
    ----------
    path : Path
    pages : sequence of sequence of (int, Region)
        Regions of each page with their pixel values.
    shape : tuple of int
        Pixels (H, W) of a page.
    kind : dtype
        Little-endian; large enough for all values.
    metadata : mapping, optional

    Returns
    -------
    set of (int, int)
        Page and value of each visible region; others are hidden by smaller ones.

    Raises
    ------
    OSError
        If it cannot be written.
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
        # Largest first, so that regions inside it stay visible.
        here = sorted(page, key=lambda pair: (-pair[1].area, pair[1].bbox))
        boxes = np.array([region.bbox for _, region in here]).reshape(-1, 4)
        for y in range(0, shape[0], TILE):
            for x in range(0, shape[1], TILE):
                low, high = boxes[:, :2] < (y + TILE, x + TILE), boxes[:, 2:] > (y, x)
                inside = np.flatnonzero(low.all(1) & high.all(1))
                if not len(inside):
                    yield empty
                    continue
                tile = np.zeros((TILE, TILE), kind)
                for place in inside:
                    value, region = here[place]
                    _draw(tile, y, x, region.bbox, binary_mask(region), value)
                seen.update((number, int(value)) for value in np.unique(tile) if value)
                yield zlib.compress(tile.tobytes())


def _draw(
    tile: Array, y: int, x: int, box: tuple[int, int, int, int], mask: Array, value: int
) -> None:
    y0, x0, y1, x1 = box
    top, left, bottom, right = max(y0, y), max(x0, x), min(y1, y + TILE), min(x1, x + TILE)
    part = mask[top - y0 : bottom - y0, left - x0 : right - x0]
    tile[top - y : bottom - y, left - x : right - x][part] = value
