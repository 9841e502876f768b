"""Files to arrays: whatever the format, either colours or the numbers that are stored."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError

Array = npt.NDArray[Any]

TIFF: Final = {".tif", ".tiff"}
LOSSY: Final = {".jpg", ".jpeg", ".webp"}
PICTURES: Final = {".png", ".bmp", ".gif", *LOSSY, *TIFF}
# What Pillow is asked for, so that colours are colours whatever way they are stored.
_AS_COLOUR: Final = {
    "P": "RGB",
    "PA": "RGBA",
    "LA": "RGBA",
    "CMYK": "RGB",
    "YCbCr": "RGB",
    "LAB": "RGB",
    "HSV": "RGB",
}


def decode(path: Path, what: str, *, colours: bool) -> Array:
    """Read a file to an array.

    Parameters
    ----------
    path : Path
    what : str
        What the user meant it to be, for messages.
    colours : bool
        True turns palettes, CMYK and the like into RGB(A), channels last; False gives the numbers
        that are stored (a palette image's indices), as masks need.

    Raises
    ------
    InputError
        If the file is missing, a folder, or cannot be read; names it.
    """
    if not path.exists():
        raise InputError(f"There is no {what} at {path}; check the path.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name one {what} file.")
    try:
        # A reader's own warnings would stand between the user and our one line.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if path.suffix.lower() == ".npy":
                return np.asarray(np.load(path, allow_pickle=False))
            if path.suffix.lower() in TIFF:
                return _tiff(path, colours=colours)
            return _picture(path, colours=colours)
    except Exception as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise InputError(f"{path} could not be read as {what}: {reason[0]}") from error


def _tiff(path: Path, *, colours: bool) -> Array:
    import tifffile

    with tifffile.TiffFile(path) as file:
        array = np.asarray(file.asarray())
        planar = file.series[0].axes.startswith("S")
    # Colours stored plane by plane say so; other first axes are planes of a stack.
    return np.moveaxis(array, 0, -1) if colours and planar else array


def _picture(path: Path, *, colours: bool) -> Array:
    import imageio.v3
    from PIL import Image

    with Image.open(path) as picture:
        mode = "P" if picture.mode == "P" else None
        if colours:
            mode = _AS_COLOUR.get(picture.mode)
            if picture.mode == "P" and "transparency" in picture.info:
                mode = "RGBA"
    keywords = {} if mode is None else {"mode": mode}
    return np.asarray(imageio.v3.imread(path, index=0, **keywords))
