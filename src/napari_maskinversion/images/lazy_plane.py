"""One plane of an n-dimensional array that need not be in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, product
from typing import Any, Final, Protocol

import numpy as np

from ..base.errors import InputError
from ..base.lru_cache import LruCache
from .plane_source import Array, Box, Level

# Recent chunks are cached: neighbouring windows and the strips of one window share them.
_CACHE_BYTES: Final = 128 * 2**20
# Far above any image: stores of a few bytes declare any size, and reading a whole plane never ends.
_LONGEST: Final = 10_000_000  # pixels
_ROUNDED: Final = 2e-6  # of a number: "-3.40282e+38" is the lowest of float32


class ArrayLike(Protocol):
    """The part of NumPy, dask and zarr arrays used here."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Size along each axis."""

    @property
    def dtype(self) -> Any:
        """Data type."""

    def __getitem__(self, key: Any) -> Any:
        """Return a part."""


def is_nodata(values: Array, nodata: float) -> Array:
    """Return where values are a number that was written as a text, and rounded if not whole."""
    if np.isnan(nodata):
        return np.isnan(values)
    if values.dtype.kind != "f":
        return np.asarray(values == nodata)
    low, high = sorted((nodata * (1 - _ROUNDED), nodata * (1 + _ROUNDED)))
    with np.errstate(over="ignore"):  # a number beyond float32
        return np.asarray((values >= low) & (values <= high))


class LazyPlane:
    """A plane of rows and columns, optionally with colours, of arrays that may be lazy."""

    def __init__(
        self,
        levels: Sequence[ArrayLike],
        *,
        axes: tuple[int, int] | None = None,
        index: Sequence[int] = (),
        samples: bool = False,
        nodata: float | None = None,
    ) -> None:
        first = levels[0]
        count = len(first.shape) - samples
        if axes is None:
            rows = count - 2
            columns = count - 1
        else:
            rows, columns = axes
        self._arrays = tuple(levels)
        self._axes = (rows, columns)
        self._samples = samples
        self._index = tuple(int(place) for place in index) or (0,) * count
        self.dtype = np.dtype(first.dtype)
        self._nodata = nodata
        shapes = [(int(a.shape[rows]), int(a.shape[columns])) for a in levels]
        height, width = shapes[0]
        if 0 in shapes[0]:
            raise InputError(f"The image has no pixels: its shape is {tuple(first.shape)}.")
        if max(shapes[0]) > _LONGEST:
            raise InputError(
                f"The image declares {height} x {width} px; at most {_LONGEST:,} px along a side "
                "are possible."
            )
        self.levels = tuple(Level(s, (height / s[0], width / s[1])) for s in shapes)
        # Some files have one huge chunk, which is cached, too.
        self._chunks = LruCache[tuple[int, ...], Array](_CACHE_BYTES, size=_bytes_of)

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W)."""
        return self.levels[0].shape

    @property
    def samples(self) -> int:
        """Number of colours per pixel; 0 without a colour axis."""
        if self._samples:
            return int(self._arrays[0].shape[-1])
        return 0

    def read(self, level: int, box: Box) -> Array:
        """Read pixels ``(y0, x0, y1, x1)`` of a level, (h, w) or (h, w, colours), as stored."""
        array = self._arrays[level]
        y0, x0, y1, x1 = box
        edges = self._edges(level)
        if isinstance(array, np.ndarray) or edges is None:
            return self._cut(level, box)
        shape = (y1 - y0, x1 - x0) + ((self.samples,) if self._samples else ())
        out = np.empty(shape, dtype=self.dtype)
        for top, bottom in _between(edges[0], y0, y1):
            for left, right in _between(edges[1], x0, x1):
                chunk = self._chunk(level, (top, left, bottom, right))
                a = max(top, y0)
                b = max(left, x0)
                c = min(bottom, y1)
                d = min(right, x1)
                out[a - y0 : c - y0, b - x0 : d - x0] = chunk[
                    a - top : c - top, b - left : d - left
                ]
        return out

    def values(self, box: Box) -> Array:
        """Read a box of the finest level; NaN for pixels without a value."""
        values = self.read(0, box)
        nothing = self.no_value(values)
        if nothing is None or not nothing.any():
            return values
        if values.ndim == nothing.ndim:
            where = nothing
        else:
            where = nothing[..., None]
        return np.where(where, np.nan, values)

    def no_value(self, values: Array) -> Array | None:
        """Return where pixels (h, w) have no value; None if all have one.

        Those of colours have none if none of the three has one, as in GDAL's mask of a data set, or
        if they are transparent.
        """
        clear: Array | None = None
        if self.samples == 4:
            clear = values[..., 3] == 0
        if self._nodata is None:
            return clear
        same = is_nodata(values, self._nodata)
        if self._samples:
            same = np.asarray(same[..., :3].all(-1))
        if clear is None:
            return same
        return np.asarray(same | clear)

    def _cut(self, level: int, box: Box) -> Array:
        array = self._arrays[level]
        rows, columns = self._axes
        key: list[Any] = []
        for axis, size in enumerate(array.shape[: len(array.shape) - self._samples]):
            if axis == rows:
                key.append(slice(box[0], box[2]))
            elif axis == columns:
                key.append(slice(box[1], box[3]))
            else:
                # Coarser levels may have fewer planes too.
                full = int(self._arrays[0].shape[axis])
                key.append(min(self._index[axis] * int(size) // full, int(size) - 1))
        pixels = np.asarray(array[tuple(key)])
        if rows < columns:
            return pixels
        return np.swapaxes(pixels, 0, 1)

    def _chunk(self, level: int, box: Box) -> Array:
        key = (level, *box)
        pixels = self._chunks.get(key)
        if pixels is None:
            pixels = self._cut(level, box)
            self._chunks.put(key, pixels)
        return pixels

    def forget(self) -> None:
        """Drop cached chunks."""
        self._chunks.clear()

    def _edges(self, level: int) -> tuple[list[int], list[int]] | None:
        """Return chunk edges along rows and columns; None if the array has no chunks."""
        chunks = getattr(self._arrays[level], "chunks", None)
        if not chunks:
            return None
        both = []
        for axis, size in zip(self._axes, self.levels[level].shape, strict=True):
            along = chunks[axis]
            if isinstance(along, int):  # zarr has one size, dask one per chunk
                edges = [*range(0, size, along), size]
            else:
                edges = [0, *accumulate(int(part) for part in along)]
            both.append(edges)
        return both[0], both[1]


class View:
    """A lazy array whose samples, which are along ``axis``, come last: all of them or some."""

    def __init__(self, array: Any, axis: int, samples: Sequence[int] = ()) -> None:
        self._array = array
        self._axis = axis
        self._samples = list(samples or range(array.shape[axis]))
        self.dtype = array.dtype
        self.shape = self._moved(array.shape)
        chunks = getattr(array, "chunks", None)
        self.chunks = None
        if chunks:
            self.chunks = self._moved(chunks)

    def _moved(self, sizes: Sequence[Any]) -> tuple[Any, ...]:
        return (*sizes[: self._axis], *sizes[self._axis + 1 :], len(self._samples))

    def __getitem__(self, key: Any) -> Array:
        key = key if isinstance(key, tuple) else (key,)
        leading = len(self.shape) - 1
        samples = key[leading:]
        key = (*key[:leading], *[slice(None)] * (leading - len(key)))
        before = key[: self._axis]
        after = key[self._axis :]
        if samples and isinstance(samples[0], int | np.integer):
            # One sample is read alone: files with a hundred bands keep each by itself.
            return np.asarray(self._array[(*before, self._samples[samples[0]], *after)])
        part = np.asarray(self._array[(*before, slice(None), *after)])
        moved = np.moveaxis(part, sum(isinstance(k, slice) for k in before), -1)
        return moved[..., self._samples][(..., *samples)]


class MaskedArray:
    """A lazy array with another value where its mask of rows and columns is 0."""

    def __init__(
        self, array: Any, mask: Any, axes: tuple[int, int], kind: np.dtype[Any], fill: float
    ) -> None:
        self._array = array
        self._mask = mask
        self._axes = axes
        self._fill = fill
        self.dtype = kind
        self.shape = tuple(array.shape)
        if chunks := getattr(array, "chunks", None):
            self.chunks = chunks

    def __getitem__(self, key: Any) -> Array:
        key = key if isinstance(key, tuple) else (key,)
        key = (*key, *[slice(None)] * (len(self.shape) - len(key)))
        values = np.asarray(self._array[key]).astype(self.dtype)
        rows_columns = tuple(key[axis] for axis in self._axes)
        left = []
        for axis, part in enumerate(key):
            if isinstance(part, slice):
                left.append(axis)
        sides = []
        for axis, size in zip(left, values.shape, strict=True):
            sides.append(size if axis in self._axes else 1)
        seen = np.asarray(self._mask[rows_columns]).reshape(sides)
        return np.where(seen != 0, values, np.asarray(self._fill, self.dtype))


def _bytes_of(pixels: Array) -> int:
    return int(pixels.nbytes)


def _between(edges: list[int], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the chunks (start, stop) that a range touches."""
    place = bisect_right(edges, start) - 1
    # Chunks of no length have the same edge twice.
    while place + 1 < len(edges) and edges[place] < stop:
        if edges[place] < edges[place + 1]:
            yield edges[place], edges[place + 1]
        place += 1


def blocks(shape: tuple[int, int], side: int) -> Iterator[Box]:
    """Yield boxes with sides of at most ``side`` pixels that cover a plane, row by row."""
    for top, left in product(range(0, shape[0], side), range(0, shape[1], side)):
        yield top, left, min(top + side, shape[0]), min(left + side, shape[1])
