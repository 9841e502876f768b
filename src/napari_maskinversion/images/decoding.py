"""Read files to arrays, as colours or as the stored numbers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt
from numpy.lib.format import MAGIC_PREFIX

from ..base.errors import InputError
from ..base.memory import free_memory
from ..base.reading import check_file
from .jpeg import check_jpeg, check_tiles
from .tiff_pages import check_pages, colour_samples, is_inverted, opened_tiff, palette_of

Array = npt.NDArray[Any]

_ALWAYS_FITS: Final = 2**28  # bytes

TIFF: Final = {".tif", ".tiff"}
SLIDES: Final = {".svs", ".ndpi", ".scn", ".bif", ".btf", ".tf8", ".lsm", ".stk", ".qptiff"}
"""Endings of TIFF files of microscopes and scanners."""
LOSSY: Final = {".jpg", ".jpeg", ".webp"}
PICTURES: Final = {".png", ".bmp", ".gif", *LOSSY, *TIFF}
_PROGRAMS: Final = {"EPS", "WMF"}
"""Pillow gives PostScript to Ghostscript, and Windows draws metafiles."""
# Pillow modes to convert to RGB(A).
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
    """Read a file to an array."""
    check_file(path, what)
    # Warnings of the libraries would hide our one-line message.
    with reading_errors(path, what), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if path.suffix.lower() == ".npy":
            with path.open("rb") as file:
                if file.read(len(MAGIC_PREFIX)) != MAGIC_PREFIX:
                    raise InputError(f"{path} could not be read as {what}: it is no .npy file.")
            # Mapped first: a header may declare more than the file has.
            array = np.load(path, mmap_mode="r", allow_pickle=False)
            check_memory(array.nbytes, path, what)
            array = np.array(array)
            if array.dtype.kind not in "biufc":
                raise InputError(f"{path} contains values of type {array.dtype}, not numbers.")
            return array
        if path.suffix.lower() in {*TIFF, *SLIDES}:
            return _tiff(path, colours=colours)
        return _picture(path, colours=colours)


def check_memory(size: int, path: Path, what: str) -> None:
    """Refuse to read more bytes at once than are free."""
    if size <= _ALWAYS_FITS:
        return
    free = free_memory()
    if size > free:
        raise InputError(
            f"{path} needs {size / 1e9:,.1f} GB of memory to be read as {what}, and "
            f"{free / 1e9:.1f} GB are free; save it in smaller tiles (tiled TIFF, zarr), or cut "
            "it into parts."
        )


@contextmanager
def reading_errors(path: Path, what: str) -> Iterator[None]:
    """Turn any error of a reader into an `InputError` that names the file."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise InputError(f"{path} could not be read as {what}: {reason[0]}") from error


def _tiff(path: Path, *, colours: bool) -> Array:
    with opened_tiff(path) as file:
        check_memory(file.series[0].nbytes, path, "image")
        check_pages(file.series[0], path)
        check_tiles(page.keyframe for page in file.series[0].pages if page is not None)
        # tifffile would decode a slide of NDPI as one stream, which is not looked at.
        array = np.asarray(_by_tiles(file.series[0]) if file.is_ndpi else file.asarray())
        return _shown(array, file.series[0]) if colours else array


def _shown(array: Array, series: Any) -> Array:
    """Return the colours or the grey that viewers show, colours last; channels are first."""
    page = series.keyframe
    palette = palette_of(page)
    if palette is not None:
        return np.asarray(palette[array])
    if is_inverted(page):
        return np.asarray(np.invert(array))
    # "S" marks colours; any other first axis counts planes of a stack.
    if "S" not in series.axes:
        return array
    array = np.moveaxis(array, series.axes.index("S"), -1)
    samples = colour_samples(page, array.shape[-1])
    if not samples:
        return np.moveaxis(array, -1, 0)
    return array if samples == tuple(range(array.shape[-1])) else array[..., list(samples)]


def _by_tiles(series: Any) -> Any:
    import zarr

    return zarr.open_array(series.aszarr(level=0), mode="r")[:]


def _picture(path: Path, *, colours: bool) -> Array:
    with open_picture(path) as picture:
        is_jpeg = picture.format in ("JPEG", "MPO")
        mode = _AS_COLOUR.get(picture.mode) if colours else None
        if colours and picture.mode == "P" and "transparency" in picture.info:
            mode = "RGBA"
        array = np.array(picture if mode is None else picture.convert(mode))
    if is_jpeg:
        check_jpeg(path.read_bytes())
    return array


def open_picture(file: Path | IO[bytes], formats: tuple[str, ...] | None = None) -> Any:
    """Open a picture with Pillow, but no format that is a program or needs one."""
    from PIL import Image

    Image.init()
    known = tuple(name for name in Image.ID if name not in _PROGRAMS)
    return Image.open(file, formats=known if formats is None else formats)
