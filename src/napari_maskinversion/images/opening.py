"""Open images and label images of any number of dimensions without reading their pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..base.reading import check_file
from .decoding import PICTURES, check_memory, decode, picture_notes, reading_errors
from .ome_zarr import is_zarr, label_image, open_zarr
from .other_formats import is_other_format, open_other_format
from .stack import Stack, check_series, stack_of
from .tiff import is_tiff, open_tiff

# Formats that are read piece by piece; all others are decoded whole.
_LAZY_FORMATS: Final[
    tuple[tuple[Callable[[Path], bool], Callable[[Path, int, bool], Stack]], ...]
] = (
    (is_zarr, lambda path, series, _: open_zarr(path, series)),
    (is_tiff, lambda path, series, colours: open_tiff(path, series, colours=colours)),
    (is_other_format, lambda path, series, _: open_other_format(path, series)),
)


def open_image(path: str | Path, series: int | None = None) -> Stack:
    """Open an image: TIFF (also tiled, pyramidal, OME, ImageJ, GeoTIFF), zarr, .npy, PNG, JPEG.

    ND2, LIF, CZI and others are read through bioio, where it is installed. Zarr is a folder with an
    array, an OME-Zarr pyramid, or several: a plate, positions.
    """
    return _open(Path(path), "image", colours=True, series=series or 0)


def open_labels(path: str | Path, series: int = 0) -> Stack:
    """Open a label image: the stored numbers, never the colours of a palette."""
    labels = label_image(Path(path), series)
    return _open(labels, "masks", colours=False, series=series if labels == Path(path) else 0)


def image_notes(path: Path) -> tuple[str, ...]:
    """Return what a reader of a TIFF file or a picture that needs its pixels alone has to say."""
    if is_tiff(path):
        with open_image(path) as stack:
            count = len(stack.images)
            several = (f"{path} holds {count} images; the first one is read.",) * (count > 1)
            return several + stack.notes
    if path.suffix.lower() not in PICTURES:
        return ()
    with reading_errors(path, "image"):
        return picture_notes(path)


class _FileArray:
    """An array in a file, read piece by piece; errors name the file.

    Decoders raise nearly anything on damaged files.
    """

    def __init__(self, array: Any, path: Path, what: str) -> None:
        self._array, self._path, self._what = array, path, what
        self.shape, self.dtype = array.shape, array.dtype

    @property
    def chunks(self) -> Any:
        return self._array.chunks

    def __getitem__(self, key: Any) -> Any:
        with reading_errors(self._path, self._what):
            check_memory(self._size_of(key), self._path, self._what)
            return np.asarray(self._array[key])

    def _size_of(self, key: Any) -> int:
        """Return the bytes of a selection, or of the chunk that has to be read for it."""
        # zarr has one size of chunks, dask one for each
        largest = (c if isinstance(c, int) else max(c) for c in self.chunks or (0,))
        selected = np.broadcast_to(np.zeros((), self.dtype), self.shape)[key]
        return int(np.dtype(self.dtype).itemsize * max(selected.size, prod(largest)))


def _named(level: Any, path: Path, what: str) -> Any:
    return level if isinstance(level, np.ndarray) else _FileArray(level, path, what)


def _open(path: Path, what: str, *, colours: bool, series: int = 0) -> Stack:
    check_file(path, what, folder=True)
    for fits, open_lazily in _LAZY_FORMATS:
        if fits(path):
            with reading_errors(path, what):
                stack = open_lazily(path, series, colours)
            levels = tuple(_named(level, path, what) for level in stack.levels)
            return replace(stack, levels=levels)
    check_series(path, series, ("",))
    array = decode(path, what, colours=colours)
    # Of pictures colours are known; an array has to be guessed by its shape.
    is_picture = path.suffix.lower() in PICTURES
    axes = ("y", "x", "s") if is_picture and array.ndim == 3 else None
    stack = stack_of(array, axes=axes, name=str(path))
    if not is_picture:
        return stack
    with reading_errors(path, what):
        return replace(stack, notes=picture_notes(path))
