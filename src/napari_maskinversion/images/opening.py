"""Open images and label images of any number of dimensions without reading their pixels.

`read_image` reads one in the form the models take.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..base.errors import InputError, MaskInversionError
from ..base.reading import check_file
from ..base.units import Georeference, Units
from .channels import as_source, source_of
from .decoding import PICTURES, Array, check_memory, decode, picture_notes, reading_errors
from .lazy_plane import ArrayLike
from .ome_zarr import is_zarr, label_image, open_zarr
from .other_formats import is_other_format, open_other_format
from .plane_source import brightness_note
from .stack import Stack, check_series, stack_of
from .tiff import FileMask, file_masks, is_tiff, masked, open_tiff, without_nodata

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


class FileArray:
    """An array in a file, read piece by piece; errors name the file.

    Decoders raise nearly anything on damaged files. Of labels, no data (``nodata``) is 0.
    """

    def __init__(self, array: Any, path: Path, kind: str, nodata: float | None) -> None:
        self._array = array
        self._path = path
        self._what = kind
        self._nodata = nodata
        self.shape = array.shape
        self.dtype = array.dtype
        self.chunks = getattr(array, "chunks", None)

    def __getitem__(self, key: Any) -> Any:
        with reading_errors(self._path, self._what):
            check_memory(self._size_of(key), self._path, self._what)
            return without_nodata(np.asarray(self._array[key]), self._nodata)

    def _size_of(self, key: Any) -> int:
        """Return the bytes of a selection, or of the chunk that must be read for it."""
        # zarr has one size of chunks, dask one for each
        largest = (c if isinstance(c, int) else max(c) for c in self.chunks or (0,))
        selected = np.broadcast_to(np.zeros((), self.dtype), self.shape)[key]
        return int(np.dtype(self.dtype).itemsize * max(selected.size, prod(largest)))


def _open(path: Path, kind: str, *, colours: bool, series: int = 0) -> Stack:
    check_file(path, kind, folder=True)
    for fits, open_lazily in _LAZY_FORMATS:
        if fits(path):
            with reading_errors(path, kind):
                stack = open_lazily(path, series, colours)
            nodata = None if colours else stack.nodata
            levels: list[Any] = []
            for level in stack.levels:
                if isinstance(level, np.ndarray) and nodata is None:
                    levels.append(level)
                else:
                    levels.append(FileArray(level, path, kind, nodata))
            return replace(stack, levels=tuple(levels))
    check_series(path, series, ("",))
    array = decode(path, kind, colours=colours)
    if path.suffix.lower() not in PICTURES:  # its axes have to be guessed by its shape
        return stack_of(array, name=str(path))
    stack = stack_of(array, axes=("y", "x", "s")[: array.ndim], name=str(path))
    with reading_errors(path, kind):
        return replace(stack, notes=picture_notes(path))


def read_image(path: str | Path) -> Array:
    """Read an image to (H, W) or (H, W, 3), in a type the models take.

    RGBA is composited onto black. uint8 and bool are kept; others become float32 in 0..1, as in a
    run: colours of uint16 have the range of 8, 10, 12, 14 or 16 bits, the smallest that holds all
    but hot pixels (0.01 %).
    Floats in 0..1 keep their range. Other types are stretched between percentiles 0.1 and 99.9.
    NaN, and what the tag GDAL_NODATA names, is no value, and black.

    Warns
    -----
    UserWarning
        If it is one of several images in the file, viewers show it in another way, or it is nearly
        black or white.

    Raises
    ------
    InputError
        If the file is missing, is not an image, or has several planes; names it.
    """
    file = Path(path)
    array = read_plane(file)
    for note in filter(None, (*image_notes(file), brightness_note(as_source(array)))):
        warnings.warn(note, stacklevel=2)
    return array


def read_plane(path: Path) -> Array:
    """Do the same as `read_image`, without a warning."""
    array = decode(path, "image", colours=True)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise InputError(
            f"{path} contains an array of shape {array.shape}; one plane, grey or RGB, is needed. "
            "Save the plane you want as a separate image."
        )
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    nodata = nodata_of(path, array.shape[:2])
    if array.dtype in (np.uint8, np.bool_) and nodata is None and array.shape[2:] != (4,):
        return array
    try:
        source = source_of(array, nodata)
        return source.read(0, (0, 0, *source.shape))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def nodata_of(file: Path | None, shape: tuple[int, ...]) -> float | None:
    """Return what stands for no value in a file whose last two axes, of pixels, have this shape."""
    if file is None:
        return None
    return _about(file, shape[-2:])[1]


def without_masked(
    array: ArrayLike, file: Path | None, shape: tuple[int, ...], *, rgb: bool = False, labels: bool
) -> Any:
    """Return a layer's array with no value, or as labels no region, where its file's mask is 0."""
    masks = {} if file is None else _about(file, shape[-2:])[2]
    axes = (*[""] * (len(shape) - 2), "y", "x", *["s"] * rgb)
    if masks:
        return masked(array, axes, masks, labels=labels)
    return array


def georeference_of(file: Path | None, shape: tuple[int, int]) -> Georeference | None:
    """Return the georeference of a file whose planes have this shape; None without one."""
    units = None if file is None else _units_of(file, shape)
    if units is None:
        return None
    return units.geo


def with_georeference(
    units: Units | None, file: Path | None, shape: tuple[int, int], axes: tuple[int, int]
) -> Units | None:
    """Return a layer's units with the georeference of its file; for a worker."""
    transposed = axes[0] > axes[1]
    if file is None:
        of_file = None
    else:
        of_file = _units_of(file, shape[::-1] if transposed else shape)
    if of_file is None or of_file.geo is None:
        return units
    if transposed:
        of_file = of_file.transposed()
    if units is None:
        return of_file
    return replace(units, geo=of_file.geo)


def _units_of(file: Path, shape: tuple[int, int]) -> Units | None:
    return _about(file, shape)[0]


_About = tuple[Units | None, float | None, dict[tuple[int, ...], FileMask]]


def _about(file: Path, shape: tuple[int, ...]) -> _About:
    """Return units, nodata and masks of a file; none if it has other planes or another reader."""
    try:
        about = file.stat()
        return _read(file, shape, about.st_mtime_ns, about.st_size)
    except (MaskInversionError, OSError):
        return None, None, {}


@lru_cache(maxsize=8)
def _read(file: Path, shape: tuple[int, ...], *_: int) -> _About:
    if is_tiff(file):
        with open_image(file) as stack:
            if stack.shape == shape:
                return stack.units, stack.nodata, file_masks(file)
    return None, None, {}
