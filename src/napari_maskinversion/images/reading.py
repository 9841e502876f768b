"""Read an image in the form the models take."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from ..base.errors import InputError
from ..base.reading import as_path
from .decoding import Array, decode
from .opening import image_notes


def read_image(path: str | Path) -> Array:
    """Read an image to (H, W) or (H, W, 3), in a type the models take.

    RGBA is composited onto black. uint8, bool, floats in 0..1 and 16-bit colours are kept. Other
    types (12 bits in uint16, int32, other floats) have no range of their own: they are scaled from
    their minimum and maximum to float32 in 0..1, as viewers do.

    Warns
    -----
    UserWarning
        If it is one of several images in the file, or viewers show it in another way.

    Raises
    ------
    InputError
        If the file is missing, is not an image, has several planes, or contains NaN; names it.
    """
    file = as_path(path, "an image")
    array = read_plane(file)
    for note in image_notes(file):
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
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        count = int((~np.isfinite(array)).sum())
        raise InputError(f"{path} contains {count} values that are not finite (NaN or infinity).")
    if array.dtype.kind not in "uifb":
        raise InputError(f"{path} has values of type {array.dtype}; an image has real numbers.")
    known = array.dtype in (np.uint8, np.bool_) or (array.dtype == np.uint16 and array.ndim == 3)
    if not known:
        array = _stretch(array)
    if array.ndim == 3 and array.shape[2] == 4:
        array = _over_black(array)
    return array


def _stretch(array: Array) -> Array:
    low, high = float(array.min()), float(array.max())
    if array.dtype.kind == "f" and low >= 0 and high <= 1:
        return array.astype(np.float32)
    spread = max(high - low, np.finfo(float).tiny)
    return np.asarray((array.astype(np.float64) - low) / spread, dtype=np.float32)


def _over_black(array: Array) -> Array:
    if array.dtype.kind in "ub":
        top = 1 if array.dtype.kind == "b" else np.iinfo(array.dtype).max
        mixed = array[:, :, :3].astype(np.float32) * (array[:, :, 3:].astype(np.float32) / top)
        return np.asarray(np.round(mixed), dtype=array.dtype)
    return np.asarray(array[:, :, :3] * array[:, :, 3:])
