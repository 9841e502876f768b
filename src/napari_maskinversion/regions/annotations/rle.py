"""COCO run lengths to and from masks, without a mask as large as the plane.

Runs go down the columns, background first; compressed, they are text with six bits per character.
`pycocotools` only decodes to the full plane, and does not validate its input.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.regions import Region
from .annotation import binary_mask, place_mask

Integers = npt.NDArray[np.int64]
_MAX_PIXELS: Final = 2**32 - 1  # pycocotools counts with 32 bits
_MAX_CROP: Final = 2_000_000_000


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
    starts, ends = starts[np.r_[0, apart + 1]], ends[np.r_[apart, len(ends) - 1]]
    edges = np.stack([starts, ends], axis=1).ravel()
    counts = np.diff(edges, prepend=0).tolist()
    if ends[-1] < height * width:
        counts.append(height * width - int(ends[-1]))
    runs = coco_mask.frPyObjects({"size": [height, width], "counts": counts}, height, width)
    return {"size": [height, width], "counts": runs["counts"].decode("ascii")}


def decode(region_id: int, segmentation: Any, shape: tuple[int, int]) -> Region | None:
    """Decode run lengths, text or a list of integers; None for an empty mask."""
    height, width = shape
    size = segmentation.get("size")
    if not isinstance(size, list | tuple) or [*size] != [height, width]:
        raise ValueError(f"its mask has {size} px, the image [{height}, {width}]")
    counts = segmentation.get("counts")
    if isinstance(counts, str):
        counts = _numbers(counts)
    if not isinstance(counts, list) or any(type(value) is not int for value in counts):
        raise ValueError("its mask is not a list of run lengths")
    check_counts(counts)
    if sum(counts) != height * width:
        raise ValueError(
            f"its run lengths are broken: they add up to {sum(counts)} px of {height * width}"
        )
    ends = np.cumsum(np.asarray(counts, np.int64))
    starts, ends = ends[:-1:2], ends[1::2]
    filled = ends > starts
    starts, ends = starts[filled], ends[filled]
    if not len(starts):
        return None
    starts, ends = _by_column(starts, ends, height)
    x0, x1 = int(starts[0] // height), int((ends[-1] - 1) // height) + 1
    tops, bottoms = starts % height, (ends - 1) % height + 1
    y0, y1 = int(tops.min()), int(bottoms.max())
    if (y1 - y0) * (x1 - x0) > _MAX_CROP:
        raise ValueError(f"its box of {y1 - y0} x {x1 - x0} px is too large")
    steps = np.zeros((x1 - x0, y1 - y0 + 1), np.int8)
    columns = starts // height - x0
    np.add.at(steps, (columns, tops - y0), 1)
    np.add.at(steps, (columns, bottoms - y0), -1)
    mask = np.cumsum(steps[:, :-1], axis=1, dtype=np.int8).astype(bool).T
    return place_mask(region_id, y0, x0, np.ascontiguousarray(mask), shape)


def check_counts(counts: list[int]) -> None:
    """Refuse run lengths below 0; raises ValueError."""
    wrong = next((count for count in counts if count < 0), None)
    if wrong is not None:
        raise ValueError(f"its run lengths are broken: one of them is {wrong}")


def _by_column(starts: Integers, ends: Integers, height: int) -> tuple[Integers, Integers]:
    """Split runs that span several columns."""
    columns = (ends - 1) // height - starts // height + 1
    if (columns == 1).all():
        return starts, ends
    run = np.repeat(np.arange(len(starts)), columns)
    step = np.arange(len(run)) - np.repeat(np.cumsum(columns) - columns, columns)
    edge = (starts[run] // height + step) * height
    return np.maximum(starts[run], edge), np.minimum(ends[run], edge + height)


def _numbers(text: str) -> list[int]:
    """Decode COCO's compressed counts; from the fourth on, the difference to two counts before."""
    values: list[int] = []
    value = shift = 0
    for letter in text:
        bits = ord(letter) - 48
        if not 0 <= bits < 64 or shift > 60:
            raise ValueError("its run lengths are broken: not COCO's compressed text")
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
