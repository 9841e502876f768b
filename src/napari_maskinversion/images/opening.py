"""Files of images and labels of any number of dimensions, opened and not read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..base.errors import InputError
from .decoding import TIFF, decode
from .ome_zarr import is_zarr, open_zarr
from .stack import Stack, stack_of
from .tiff import open_tiff

__all__ = ["Stack", "open_image", "open_labels", "stack_of"]


def open_image(path: str | Path) -> Stack:
    """Open an image: TIFF (also tiled, pyramidal, OME, ImageJ, GeoTIFF), zarr, .npy, PNG, JPEG.

    Zarr is a folder: an array, or an OME-Zarr pyramid.

    Raises
    ------
    InputError
        If it is missing or cannot be read; names it.
    """
    return _open(Path(path), "image", colours=True)


def open_labels(path: str | Path) -> Stack:
    """Do the same for a label image: the numbers that are stored, never colours of a palette.

    Raises
    ------
    InputError
        As `open_image`.
    """
    return _open(Path(path), "masks", colours=False)


def _open(place: Path, what: str, *, colours: bool) -> Stack:
    opener: Callable[[Path], Stack] | None = None
    if is_zarr(place):
        opener = open_zarr
    elif place.suffix.lower() in TIFF and place.is_file():
        opener = open_tiff
    if opener is None:
        return stack_of(decode(place, what, colours=colours), name=str(place))
    try:
        return opener(place)
    except InputError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise InputError(f"{place} could not be read as {what}: {reason[0]}") from error
