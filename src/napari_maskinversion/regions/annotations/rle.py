"""Masks as COCO's run lengths, without ever making them as large as the plane.

The runs go down the columns, background first; compressed they are text of six bits a character.
`pycocotools` decodes to the full plane alone, and trusts what it is given.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.regions import Region
from .annotation import place, solid

Integers = npt.NDArray[np.int64]
# pycocotools counts with 32 bits.
_MOST: Final = 2**32 - 1
_MOST_CROP: Final = 2_000_000_000


def encode(region: Region, shape: tuple[int, int]) -> dict[str, Any]:
    """Give ``{"size": [H, W], "counts": text}``.

    Raises
    ------
    InputError
        If the plane has more pixels than the format can count.
    """
    from pycocotools import mask as coco_mask

    height, width = shape
    if height * width > _MOST:
        raise InputError(
            f"A plane of {height} x {width} px is too large for COCO; use GeoJSON or label images."
        )
    y, x = region.bbox[:2]
    columns = np.pad(solid(region).T.astype(np.int8), ((0, 0), (1, 1)))
    steps = np.diff(columns, axis=1)
    first = [np.asarray(found, np.int64) for found in np.nonzero(steps == 1)]
    last = [np.asarray(found, np.int64) for found in np.nonzero(steps == -1)]
    starts = (first[0] + x) * height + first[1] + y
    ends = (last[0] + x) * height + last[1] + y
    # A run that reaches the plane's lower edge may go on in the next column.
    apart = np.flatnonzero(starts[1:] != ends[:-1])
    starts, ends = starts[np.r_[0, apart + 1]], ends[np.r_[apart, len(ends) - 1]]
    edges = np.stack([starts, ends], axis=1).ravel()
    counts = np.diff(edges, prepend=0).tolist()
    if ends[-1] < height * width:
        counts.append(height * width - int(ends[-1]))
    runs = coco_mask.frPyObjects({"size": [height, width], "counts": counts}, height, width)
    return {"size": [height, width], "counts": runs["counts"].decode("ascii")}


def decode(region_id: int, segmentation: Any, shape: tuple[int, int]) -> Region | None:
    """Read run lengths, as text or as a list of numbers; None for a mask without a pixel.

    Raises
    ------
    ValueError
        If they are broken; says in what.
    """
    height, width = shape
    size = segmentation.get("size")
    if not isinstance(size, list | tuple) or [*size] != [height, width]:
        raise ValueError(f"its mask is of {size} px, the image of [{height}, {width}]")
    counts = segmentation.get("counts")
    if isinstance(counts, str):
        counts = _numbers(counts)
    if not isinstance(counts, list) or any(type(value) is not int for value in counts):
        raise ValueError("its mask is no list of run lengths")
    if any(value < 0 for value in counts) or sum(counts) != height * width:
        raise ValueError(
            f"its run lengths are broken: they add up to {sum(counts)} px of {height * width}"
        )
    ends = np.cumsum(np.asarray(counts, np.int64))
    starts, ends = ends[:-1:2], ends[1::2]
    some = ends > starts
    starts, ends = starts[some], ends[some]
    if not len(starts):
        return None
    starts, ends = _by_column(starts, ends, height)
    x0, x1 = int(starts[0] // height), int((ends[-1] - 1) // height) + 1
    tops, bottoms = starts % height, (ends - 1) % height + 1
    y0, y1 = int(tops.min()), int(bottoms.max())
    if (y1 - y0) * (x1 - x0) > _MOST_CROP:
        raise ValueError(f"its box of {y1 - y0} x {x1 - x0} px is too large to be kept")
    steps = np.zeros((x1 - x0, y1 - y0 + 1), np.int8)
    columns = starts // height - x0
    np.add.at(steps, (columns, tops - y0), 1)
    np.add.at(steps, (columns, bottoms - y0), -1)
    mask = np.cumsum(steps[:, :-1], axis=1, dtype=np.int8).astype(bool).T
    return place(region_id, y0, x0, np.ascontiguousarray(mask), shape)


def _by_column(starts: Integers, ends: Integers, height: int) -> tuple[Integers, Integers]:
    """Cut runs that go over several columns into one a column."""
    columns = (ends - 1) // height - starts // height + 1
    if (columns == 1).all():
        return starts, ends
    run = np.repeat(np.arange(len(starts)), columns)
    step = np.arange(len(run)) - np.repeat(np.cumsum(columns) - columns, columns)
    edge = (starts[run] // height + step) * height
    return np.maximum(starts[run], edge), np.minimum(ends[run], edge + height)


def _numbers(text: str) -> list[int]:
    """Read COCO's compressed counts: from the fourth on each is less the one two before."""
    values: list[int] = []
    value = shift = 0
    for letter in text:
        bits = ord(letter) - 48
        if not 0 <= bits < 64 or shift > 60:
            raise ValueError("its run lengths are broken: that is no compressed text of COCO's")
        value |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            value -= 1 << shift
        values.append(value + (values[-2] if len(values) > 2 else 0))
        value = shift = 0
    if shift:
        raise ValueError("its run lengths are broken: the text ends too early")
    return values
