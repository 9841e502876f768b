"""What a TIFF file says of its planes, against what it has: tifffile reads the rest as zeros."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from ..base.errors import InputError

_MOST_PLANES: Final = 2_000_000  # tifffile makes a list of them
PALETTE: Final = 3
"""The tag PhotometricInterpretation of pages that store numbers of colours."""

TURNED: Final = range(2, 9)
"""Values of the tag Orientation of an image that is not upright; 0 and others mean nothing."""
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB = 0, 1, 2
# ExtraSamples: colours that have been multiplied with their opacity, and colours that have not.
_MULTIPLIED, _OPACITY = 1, 2
_CMYK, _YCBCR = 5, 6
_UNREAD_COLOURS: Final = {_CMYK: "CMYK", _YCBCR: "YCbCr", 8: "L*a*b*", 9: "L*a*b*", 10: "L*a*b*"}
# Codecs that keep numbers as they are; those of pictures return RGB.
_PLAIN_CODECS: Final = {1, 5, 8, 32773, 32946, 34925, 50000}


@contextmanager
def opened_tiff(path: Path) -> Iterator[Any]:
    """Open a TIFF file as `open_tiff_file`, and close it."""
    with open_tiff_file(path) as file:
        yield file


def open_tiff_file(path: Path) -> Any:
    """Open a TIFF file whose OME-XML declares no more planes than a list can hold."""
    import tifffile

    file = tifffile.TiffFile(path)
    if file.is_ome and file.ome_metadata and _declared(file.ome_metadata) > _MOST_PLANES:
        file.close()
        raise InputError(
            f"{path} could not be read as image: its OME-XML declares more than "
            f"{_MOST_PLANES:,} planes."
        )
    return file


def _declared(xml: str) -> float:
    """Return the most planes that any part of OME-XML asks for; 0 if it cannot be read."""
    most = 0.0
    try:
        for part in ElementTree.fromstring(xml).iter():
            values, tag = part.attrib, part.tag.rpartition("}")[2]
            if tag == "Pixels":
                sizes = (int(values.get(f"Size{axis}", 1)) for axis in "ZCT")
                most = max(most, prod(max(1, size) for size in sizes))
            if tag == "TiffData":
                counts = (int(values.get(name, 0)) for name in ("PlaneCount", "NumPlanes", "IFD"))
                most = max(most, *counts)
            if tag.startswith("ModuloAlong") and float(values.get("Step", 1)):
                span = float(values.get("End", 0)) - float(values.get("Start", 0))
                most = max(most, abs(span / float(values.get("Step", 1))))
    except (ElementTree.ParseError, ValueError):
        return 0.0  # tifffile reads the file without it
    return most


def check_pages(series: Any, path: Path) -> None:
    """Refuse an image of which planes are missing, or a file that ends before its pixels.

    Also one whose colours would be taken for red, green and blue and are not.
    """
    colours = _unread_colours(series.keyframe)
    if colours:
        raise InputError(f"{path} stores its colours as {colours}; save it as RGB.")
    for level in series.levels:
        # Planes that follow one another may have no page of their own.
        is_whole = level.dataoffset is not None
        pages = [level.keyframe, level.pages[-1]] if is_whole else list(level.pages)
        missing = [number for number, page in enumerate(pages, 1) if page is None]
        if missing:
            raise InputError(
                f"{path} could not be read as image: plane {missing[0]} of {len(pages)} is missing "
                f"({len(missing)} in all). Copy the files that hold them to the same folder, or "
                "save the planes that there are as another file."
            )
        for page in pages:
            ends = [
                start + size
                for start, size in zip(page.dataoffsets, page.databytecounts, strict=False)
            ]
            parts = 1 if page.is_contiguous else prod(page.chunked)
            if len(ends) < parts or max(ends) > page.parent.filehandle.size:
                raise InputError(
                    f"{path} could not be read as image: it is cut off; copy it again."
                )


def _unread_colours(page: Any) -> str:
    kind = int(page.photometric)
    if kind == _CMYK and page.samplesperpixel != 4:  # channels of a microscope
        return ""
    if kind == _YCBCR and int(page.compression) not in _PLAIN_CODECS:
        return ""
    return _UNREAD_COLOURS.get(kind, "")


def is_inverted(page: Any) -> bool:
    """Return whether 0 is white: viewers show whole numbers inverted."""
    return int(page.photometric) == _WHITE_IS_ZERO and page.dtype.kind in "bu"


def palette_of(page: Any) -> Any:
    """Return the colours (N, 3) of 8 bits of a page that stores numbers of colours, else None.

    ImageJ's tables only colour intensities; they are left out.
    """
    import numpy as np

    if page.photometric != PALETTE or page.parent.is_imagej or page.colormap is None:
        return None
    return (np.asarray(page.colormap).T >> 8).astype(np.uint8)


def is_turned(page: Any) -> bool:
    """Return whether viewers that heed the tag Orientation show a page turned or mirrored."""
    return page.tags.valueof("Orientation") in TURNED


def has_fourth_band(page: Any) -> bool:
    """Return whether red, green and blue have a fourth sample that is no opacity.

    ExtraSamples = 0 says so, as in aerial images with near infrared. Pillow, tifffile and others
    write 1 or 2 for RGBA; some programs leave the tag out, which is taken for opacity.
    """
    no_opacity = bool(page.extrasamples) and not {_MULTIPLIED, _OPACITY} & {*page.extrasamples}
    return int(page.photometric) == _RGB and page.samplesperpixel == 4 and no_opacity


def colour_samples(page: Any, count: int) -> tuple[int, ...]:
    """Return which samples are red, green, blue and opacity; empty if they are channels.

    Opacity that colours have been multiplied with is left out: they are on black.
    """
    if count == page.samplesperpixel:
        kind, extra = int(page.photometric), page.extrasamples
        if has_fourth_band(page) or (count == 4 and extra == (_MULTIPLIED,)):
            return 0, 1, 2
        if count == 2 and kind == _BLACK_IS_ZERO and extra == (_OPACITY,):
            return 0, 0, 0, 1
        if count == 2 and kind == _BLACK_IS_ZERO and extra == (_MULTIPLIED,):
            return 0, 0, 0
        if count == 4 and kind in (_WHITE_IS_ZERO, _BLACK_IS_ZERO) and _OPACITY not in extra:
            return ()
    return tuple(range(count)) if count in (3, 4) else ()
