"""Masks as COCO has them: run lengths and polygons, without a mask as large as the plane.

Runs go down the columns, background first; compressed, they are text with six bits per character.
`pycocotools` compresses them; it only decodes to the full plane, and does not validate its input.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.label_blocks import MOST_PIXELS
from ...base.regions import Region
from .annotation import binary_mask
from .annotation_building import Geometry, Outline
from .polygons import check_crop

_MAX_PIXELS: Final = 2**32 - 1  # pycocotools counts with 32 bits


def encode(region: Region, shape: tuple[int, int]) -> dict[str, Any]:
    """Return ``{"size": [H, W], "counts": text}``."""
    from pycocotools import mask as coco_mask

    height, width = shape
    if height * width > _MAX_PIXELS:
        raise InputError(
            f"A plane of {height} x {width} px is too large for COCO; use GeoJSON or label images."
        )
    y, x = region.bbox[:2]
    columns = np.pad(binary_mask(region).T.astype(np.int8), ((0, 0), (1, 1)))
    steps = np.diff(columns, axis=1)
    first = [np.asarray(axis, np.int64) for axis in np.nonzero(steps == 1)]
    last = [np.asarray(axis, np.int64) for axis in np.nonzero(steps == -1)]
    starts = (first[0] + x) * height + first[1] + y
    ends = (last[0] + x) * height + last[1] + y
    # A run that reaches the lower edge may continue in the next column.
    apart = np.flatnonzero(starts[1:] != ends[:-1])
    starts = starts[np.r_[0, apart + 1]]
    ends = ends[np.r_[apart, len(ends) - 1]]
    edges = np.stack([starts, ends], axis=1).ravel()
    counts = np.diff(edges, prepend=0).tolist()
    if ends[-1] < height * width:
        counts.append(height * width - int(ends[-1]))
    runs = coco_mask.frPyObjects({"size": [height, width], "counts": counts}, height, width)
    return {"size": [height, width], "counts": runs["counts"].decode("ascii")}


def decode(
    size: tuple[int, int], counts: str | list[int], shape: tuple[int, int] | None = None
) -> Region | None:
    """Decode run lengths, text or a list of integers, in a crop; None for an empty mask.

    ``shape`` is the size of the image, if it is known.
    """
    height, width = size
    if shape not in (None, size):
        raise ValueError(f"its mask has {height} x {width} px, the image {shape}")
    if isinstance(counts, str):
        counts = _numbers(counts)
    check_counts(counts, height * width)
    ends = np.cumsum(np.asarray(counts, np.int64))
    starts = ends[:-1:2]
    ends = ends[1::2]
    filled = ends > starts
    starts = starts[filled]
    ends = ends[filled]
    if not len(starts):
        return None
    x0 = int(starts[0] // height)
    x1 = int((ends[-1] - 1) // height) + 1
    tops = starts % height
    bottoms = (ends - 1) % height + 1
    whole = (starts // height != (ends - 1) // height).any()  # a run that spans columns
    if whole:
        y0 = 0
        y1 = height
    else:
        y0 = int(tops.min())
        y1 = int(bottoms.max())
    if (y1 - y0) * (x1 - x0) > MOST_PIXELS:
        raise ValueError(f"its box of {y1 - y0} x {x1 - x0} px is too large")
    # Rows of the crop alone: the same runs in a plane of its height.
    edges = np.stack([starts, ends - 1], axis=1).ravel()
    edges = (edges // height - x0) * (y1 - y0) + edges % height - y0
    edges[1::2] += 1
    lengths = np.diff(edges, prepend=0, append=(y1 - y0) * (x1 - x0))
    mask = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths).reshape(x1 - x0, y1 - y0).T
    return Region.from_mask(0, mask, (y0, x0))


def check_counts(counts: list[int], pixels: int) -> None:
    """Refuse run lengths that do not make up a mask of so many pixels; raises ValueError."""
    if min(counts, default=0) < 0 or sum(counts) != pixels:
        raise ValueError(f"its run lengths are broken: they add up to {sum(counts)} px of {pixels}")


def _numbers(text: str) -> list[int]:
    """Decode COCO's compressed counts; from the fourth on, the difference to two counts before."""
    bits = np.array([ord(letter) - 48 for letter in text], np.int64)
    last = bits & 32 == 0  # letter of a number
    if not len(bits) or bits.min() < 0 or bits.max() > 63 or not last[-1]:
        raise ValueError("its run lengths are not COCO's compressed text")
    first = np.r_[0, np.flatnonzero(last)[:-1] + 1]
    places = np.arange(len(bits)) - np.repeat(first, np.diff(first, append=len(bits)))
    if places.max() > 11:
        raise ValueError("its run lengths are not COCO's compressed text")
    values = np.add.reduceat((bits & 31) << (5 * places), first)
    values -= np.where(bits[last] & 16, 1 << (5 * (places[last] + 1)), 0)  # below 0
    for start in (1, 2):  # differences
        values[start::2] = np.cumsum(values[start::2])
    return list(map(int, values))


def fill(parts: list[Any]) -> Geometry:
    """Fill polygons with COCO's own tools, in a crop; tiny ones stay outlines."""
    from pycocotools import mask as coco_mask
    from shapely import Polygon

    # A margin of one pixel keeps the crop's edges from acting as image edges.
    corners = np.concatenate(parts)
    left, top = (np.floor(corners.min(axis=0)) - 1).astype(int).tolist()
    right, bottom = (np.ceil(corners.max(axis=0)) + 1).astype(int).tolist()
    wide = right - left
    high = bottom - top
    check_crop(high, wide)
    rings = [(part - (left, top)).ravel().tolist() for part in parts]
    runs = coco_mask.merge(coco_mask.frPyObjects(rings, high, wide))
    region = Region.from_mask(0, coco_mask.decode(runs).astype(bool), (top, left))
    return region or Outline([polygon for polygon in map(Polygon, parts) if polygon.area])
