"""Read files to arrays, as colours or as the stored numbers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib.format import MAGIC_PREFIX

from ..base.errors import InputError, MaskInversionError
from ..base.memory import free_memory
from ..base.reading import check_file
from .tiff import FOURTH_BAND, TURNED, is_tiff, open_tiff, read_tiff, turned, varies
from .tiff import SLIDES as SLIDES
from .tiff import TIFF as TIFF

Array = npt.NDArray[Any]

_ALWAYS_FITS: Final = 2**28  # bytes
# Bytes that Pillow and NumPy need together for a pixel of grey, and of colours.
_GREY = 4
_COLOURS = 14
_PILLOW: Final = Lock()

LOSSY: Final = {".jpg", ".jpeg", ".webp"}
PICTURES: Final = {".png", ".bmp", ".gif", ".jp2", ".j2k", *LOSSY, *TIFF}
_ORIENTATION: Final = 274  # the tag of EXIF
_VOID_COLOUR: Final = (224, 224, 192)  # number 255 of a table
_PROGRAMS: Final = {"EPS", "WMF"}
"""Pillow gives PostScript to Ghostscript, and Windows draws metafiles."""
_RAW: Final = {254, 271, 330, 50706}
"""Tags of TIFF with another ending: of a smaller copy, the camera, more images, the DNG version."""
# Pillow modes to convert to RGB(A).
_AS_COLOUR: Final = dict.fromkeys(("P", "CMYK", "YCbCr", "LAB", "HSV"), "RGB") | dict.fromkeys(
    ("PA", "LA"), "RGBA"
)


def decode(path: Path, kind: str, *, colours: bool) -> Array:
    """Read a file to an array."""
    check_file(path, kind)
    # Warnings of the libraries would hide our one-line message.
    with reading_errors(path, kind), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix.lower() == ".npy":
            with path.open("rb") as file:
                if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                    raise InputError(f"{path} could not be read as {kind}: it is no .npy file.")
                if b"'|O'" in file.read(256):
                    raise InputError(
                        f"{path} holds objects of Python; a file of Cellpose ends in _seg.npy, and "
                        "others are saved by np.save('masks.npy', labels)."
                    )
            # Mapped first: a header may declare more than the file has.
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            check_memory(array.nbytes, path, kind)
            array = np.array(array)
            if array.dtype.kind not in "biufc":
                raise InputError(f"{path} contains values of type {array.dtype}, not numbers.")
            return array
        if is_tiff(path):
            if colours:
                return _tiff(path)
            return np.asarray(read_tiff(path, lambda size: check_memory(size, path, kind)))
        return _picture(path, colours=colours)


def check_memory(size: int, path: Path, kind: str) -> None:
    """Refuse to read more bytes at once than are free."""
    if size <= _ALWAYS_FITS:
        return
    free = free_memory()
    if size > free:
        raise InputError(
            f"{path} needs {size / 1e9:,.1f} GB of memory to be read as {kind}, and "
            f"{free / 1e9:.1f} GB are free; save it in smaller tiles (tiled TIFF, zarr), or cut "
            "it into parts."
        )


@contextmanager
def reading_errors(path: Path, kind: str) -> Iterator[None]:
    """Turn any error of a reader into an `InputError` that names the file."""
    try:
        yield
    except (MaskInversionError, MemoryError):
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        if type(error).__name__ == "UnidentifiedImageError":  # of Pillow
            other = "PNG, TIFF, COCO JSON or GeoJSON"
            if kind == "image":
                other = "PNG, JPEG or TIFF"
            reason = [f"its format is not known; convert it to {other}."]
        raise InputError(f"{path} could not be read as {kind}: {reason[0]}") from error


def _tiff(path: Path) -> Array:
    """Read colours, last, or grey; channels are first."""
    with open_tiff(path) as stack:
        level = stack.levels[0]
        check_memory(math.prod(level.shape) * level.dtype.itemsize, path, "image")
        array = np.asarray(level[:])
        if not array.flags.owndata:  # it may be a view of the mapped file, which may be replaced
            array = np.array(array)
        if stack.axes[-1] == "c":
            return np.moveaxis(array, -1, 0)
        return array


def _picture(path: Path, *, colours: bool) -> Array:
    with open_picture(path) as picture:
        if picture.format == "TIFF" and _RAW & picture.tag_v2.keys():
            raise InputError(
                f"{path} is a raw file of a camera, of which only a preview can be read; develop "
                "it to TIFF or JPEG."
            )
        of_jpeg = picture.format == "JPEG2000"
        if picture.mode in ("RGB", "RGBA", "LA") and (of_jpeg or "16B" in str(picture.tile)):
            import imagecodecs

            # Pillow keeps 8 of 16 bits: those of 12 would be nearly black.
            content = path.read_bytes()
            if of_jpeg:
                array = np.asarray(imagecodecs.jpeg2k_decode(content))
            else:
                array = np.asarray(imagecodecs.png_decode(content))
            if colours and of_jpeg and array.shape[2:] == (4,) and varies(array):
                return array[..., :3]
            if colours and picture.mode == "LA":
                return array[..., [0, 0, 0, 1]]
            return array
        mode = None
        if colours:
            mode = _AS_COLOUR.get(picture.mode)
        if colours and picture.mode == "P" and "transparency" in picture.info:
            mode = "RGBA"
        return np.array(picture if mode is None else picture.convert(mode))


def has_void_colour(path: Path) -> bool:
    """Return whether a picture has the table of colours of Pascal VOC, with one for undecided."""
    if is_tiff(path) or path.suffix.lower() == ".npy":
        return False
    with open_picture(path) as picture:
        return picture.mode == "P" and tuple(picture.getpalette()[-3:]) == _VOID_COLOUR


def picture_notes(path: Path) -> tuple[str, ...]:
    """Return notes about a picture: an orientation that is not heeded, pictures not read."""
    notes = []
    with open_picture(path) as picture:
        frames = getattr(picture, "n_frames", 1)
        # Phones keep depth and previews as further pictures of JPEG.
        if picture.format == "JPEG2000" and picture.mode == "RGBA" and varies(np.array(picture)):
            notes.append(f"{path} {FOURTH_BAND}")
        if frames > 1 and picture.format != "MPO":
            notes.append(f"{path} is an animation of {frames} pictures; the first one is used.")
        with suppress(Exception):  # Pillow raises nearly anything; the pixels are readable anyway
            if picture.getexif().get(_ORIENTATION) in TURNED:
                notes.append(turned(path))
    return tuple(notes)


def open_picture(file: Path | IO[bytes], formats: tuple[str, ...] | None = None) -> Any:
    """Open a picture of any size that fits into memory, of no format that is a program."""
    from PIL import Image

    Image.init()
    formats_read = tuple(name for name in Image.ID if name not in _PROGRAMS)
    with _PILLOW:  # its limit of 179 million pixels is one for the whole process
        limit = Image.MAX_IMAGE_PIXELS
        Image.MAX_IMAGE_PIXELS = None
        try:
            picture = Image.open(file, formats=formats_read if formats is None else formats)
        finally:
            Image.MAX_IMAGE_PIXELS = limit
    size = math.prod(picture.size) * (_GREY if picture.mode in ("1", "L") else _COLOURS)
    check_memory(size, file if isinstance(file, Path) else Path("The picture"), "image")
    return picture
