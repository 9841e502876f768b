"""Open images and label images of any number of dimensions without reading their pixels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from .decoding import decode, reading_errors
from .ome_zarr import is_zarr, open_zarr
from .stack import Stack, stack_of
from .tiff import is_tiff, open_tiff

# Formats that are read piece by piece; all others are decoded whole.
_LAZY_FORMATS: Final[tuple[tuple[Callable[[Path], bool], Callable[[Path], Stack]], ...]] = (
    (is_zarr, open_zarr),
    (is_tiff, open_tiff),
)


def open_image(path: str | Path) -> Stack:
    """Open an image: TIFF (also tiled, pyramidal, OME, ImageJ, GeoTIFF), zarr, .npy, PNG, JPEG.

    Zarr is a folder with an array or an OME-Zarr pyramid.

    Raises
    ------
    InputError
        If it is missing or cannot be read; names it.
    """
    return _open(Path(path), "image", colours=True)


def open_labels(path: str | Path) -> Stack:
    """Open a label image: the stored numbers, never the colours of a palette.

    Raises
    ------
    InputError
        As `open_image`.
    """
    return _open(Path(path), "masks", colours=False)


def _open(path: Path, what: str, *, colours: bool) -> Stack:
    for fits, open_lazily in _LAZY_FORMATS:
        if fits(path):
            with reading_errors(path, what):
                return open_lazily(path)
    return stack_of(decode(path, what, colours=colours), name=str(path))
