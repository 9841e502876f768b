"""Small pictures of regions with their masks."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ..base.regions import Region
from ..images.plane_source import PlaneSource, read_reduced

if TYPE_CHECKING:
    from PIL import Image

Pixels = npt.NDArray[np.uint8]
SIDE: Final = 96  # pixels of the longer side, at most
_CONTEXT: Final = 1.5  # side of the picture, relative to the longer one of the region
_LEAST: Final = 24  # plane pixels of a side: what a few pixels are shows around them
_QUALITY: Final = 80  # of WebP: 1 to 3 kB a picture


def thumbnail(source: PlaneSource, box: tuple[int, int, int, int], region: Region | None) -> bytes:
    """Return a region of a plane as WebP; its mask is the opacity."""
    file = BytesIO()
    picture = cut_out(source, box, region)
    picture.save(file, "WEBP", quality=_QUALITY, method=2, exact=True)
    return file.getvalue()


def cut_out(
    source: PlaneSource, box: tuple[int, int, int, int], region: Region | None
) -> Image.Image:
    """Return a region of a plane with what is around it; its mask is the opacity."""
    from PIL import Image

    y0, x0, y1, x1 = box
    height, width = source.shape
    half = max(_LEAST, _CONTEXT * max(y1 - y0, x1 - x0)) / 2
    y = (y0 + y1) / 2
    x = (x0 + x1) / 2
    top = max(0, int(y - half))
    left = max(0, int(x - half))
    bottom = min(height, int(y + half) + 1)
    right = min(width, int(x + half) + 1)
    level = 0  # the coarsest that still has enough pixels
    for number, pixels_of_level in enumerate(source.levels):
        if 2 * half / max(pixels_of_level.step) >= SIDE:
            level = number
    down, across = source.levels[level].step
    high, wide = source.levels[level].shape  # may be rounded
    begin = min(int(top / down), high - 1), min(int(left / across), wide - 1)
    edges = (*begin, -int(-bottom // down), -int(-right // across))
    reduce = max(1, int(2 * half / max(down, across)) // (2 * SIDE))
    pixels = as_bytes(read_reduced(source, level, edges, reduce))
    share = SIDE / max(bottom - top, right - left)
    size = (max(1, round((right - left) * share)), max(1, round((bottom - top) * share)))
    if share > 1:
        size = (pixels.shape[1], pixels.shape[0])
    picture = Image.fromarray(pixels).convert("RGB").resize(size)
    step = max(1, int(2 * half) // (2 * SIDE))  # of a whole tissue, not all pixels are looked at
    rows = np.arange(top, bottom, step)
    columns = np.arange(left, right, step)
    inside = np.ix_((y0 <= rows) & (rows < y1), (x0 <= columns) & (columns < x1))
    mask = np.zeros((len(rows), len(columns)), np.uint8)
    mask[inside] = 255
    if region is not None:
        part = region.mask[rows[inside[0]] - y0, columns[inside[1]] - x0]
        mask[inside] = np.asarray(255 * part, np.uint8)
    picture.putalpha(Image.fromarray(mask).resize(size))
    return picture


def decoded(picture: bytes) -> Pixels:
    """Return the pixels (h, w, 4) of a thumbnail."""
    from PIL import Image

    with Image.open(BytesIO(picture), formats=("WEBP",)) as opened:
        return np.asarray(opened.convert("RGBA"))


def outlined(pixels: Pixels) -> Pixels:
    """Return a crop (h, w, 3) with the outline of its region: a light line within a dark one."""
    mask = np.pad(pixels[..., 3] > 127, 1)
    near = mask[:-2, 1:-1] & mask[2:, 1:-1] & mask[1:-1, :-2] & mask[1:-1, 2:]
    around = mask[:-2, 1:-1] | mask[2:, 1:-1] | mask[1:-1, :-2] | mask[1:-1, 2:]
    inside = mask[1:-1, 1:-1]
    picture = pixels[..., :3].copy()
    picture[around & ~inside] = 0
    picture[inside & ~near] = 255
    return picture


def as_bytes(pixels: npt.NDArray[Any]) -> Pixels:
    """Return pixels as a source has them (8 bits, or 0 to 1) with 8 bits, without opacity."""
    pixels = pixels[..., :3] if pixels.ndim == 3 else pixels
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if pixels.dtype == np.uint8:
        return np.ascontiguousarray(pixels)
    return np.asarray(np.clip(np.nan_to_num(pixels, nan=0.0), 0, 1) * 255, np.uint8)
