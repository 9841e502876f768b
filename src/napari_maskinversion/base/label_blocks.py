"""Convert label images of any size to regions, block by block."""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .errors import InputError

Array = npt.NDArray[Any]
Part = tuple[int, int, Array]  # y, x of a corner on the plane, and a mask

# Approximate pixels of a block; label images are read block by block.
BLOCK: Final = 2048 * 2048
_WIDEST: Final = 4 * 2048  # pixels
# Values up to this one are used as they are; others are hashed.
_SMALL: Final = 1 << 16
LARGEST: Final = 2**31 - 1
"""Largest label; other programs store labels in 32 bits with a sign."""
# The union of distant parts is one crop: refuse crops that would not fit into memory.
MOST_PIXELS: Final = 2_000_000_000


def read_blocks(labels: Any) -> Iterator[tuple[int, int, Array]]:
    """Yield (y, x, block) of a 2-D label image, in whole chunks if it has chunks."""
    height, width = (int(side) for side in labels.shape)
    rows, columns = _block_shape(labels, height, width)
    for y in range(0, height, rows):
        for x in range(0, width, columns):
            block = np.asarray(labels[y : y + rows, x : x + columns])
            yield y, x, as_whole_numbers(block)


def _block_shape(labels: Any, height: int, width: int) -> tuple[int, int]:
    chunks = getattr(labels, "chunks", None)
    if not chunks:
        columns = max(1, min(width, _WIDEST))
        return max(1, min(height, BLOCK // columns)), columns
    sizes = [c if isinstance(c, int) else int(max(c, default=1)) for c in chunks]
    rows = max(1, sizes[0])
    columns = max(1, sizes[1])
    columns *= max(1, min(-(-width // columns), _WIDEST // columns))
    return rows * max(1, BLOCK // (rows * columns)), columns


def as_whole_numbers(block: Array) -> Array:
    """Convert a block to integers; NaN, which is no value, to 0."""
    kind = block.dtype.kind
    if kind == "b":
        return block.astype(np.uint8)
    if kind not in "iuf":
        raise InputError(f"A label image must be of whole numbers; got type {block.dtype}.")
    if kind == "f":
        block = np.nan_to_num(block, nan=0.0, posinf=np.inf, neginf=-np.inf)
        if not np.array_equal(block, np.round(block)):
            raise InputError(
                "A label image has whole numbers; this one contains fractions. Save it as 16-bit "
                "whole numbers (in CellProfiler, convert objects to an image of type uint16)."
            )
    # Smaller types cannot hold larger values.
    if block.size and (kind != "u" or block.itemsize > 2):
        for value in (block.min(), block.max()):
            if not 0 <= value <= LARGEST:
                raise InputError(
                    f"Labels are numbers from 1 to {LARGEST} (0 is no region); this label image "
                    f"contains {value}. Renumber its regions, for example with "
                    "skimage.segmentation.relabel_sequential."
                )
    if kind == "f":
        return block.astype(np.int64, copy=False)
    # pandas reads native byte order only.
    return block.astype(block.dtype.newbyteorder("="), copy=False)


def compact(block: Array) -> tuple[Array, Array]:
    """Number the values of a block of whole numbers from 0 consecutively; 0 stays 0.

    Shapes: returns values (n,).
    """
    high = int(block.max())
    if high <= _SMALL:
        return np.arange(1, high + 1), block.astype(np.int32)
    import pandas as pd

    codes, values = pd.factorize(block.ravel())
    order = np.argsort(values, kind="stable")
    order = order[values[order] != 0]
    table = np.zeros(len(values), dtype=np.int32)
    table[order] = np.arange(1, len(order) + 1)
    return values[order], table[codes].reshape(block.shape)


def crop_labels(
    labels: Any, only: Container[int] | None = None
) -> list[tuple[int, tuple[int, int, int, int], Array]]:
    """Return (value, box, mask) of each value but 0 of a 2-D label image, sorted by value."""
    from scipy import ndimage

    parts: dict[int, list[Part]] = {}
    for y, x, block in read_blocks(labels):
        if not block.any():
            continue
        values, numbers = compact(block)
        for number, place in enumerate(ndimage.find_objects(numbers), 1):
            if place is None:
                continue
            value = int(values[number - 1])
            if only is not None and value not in only:
                continue
            rows, columns = place
            mask = numbers[place] == number
            parts.setdefault(value, []).append((y + rows.start, x + columns.start, mask))
    # Popping frees the parts of each value as soon as they are joined.
    return [(value, *join(parts.pop(value))) for value in sorted(parts)]


def join(parts: list[Part]) -> tuple[tuple[int, int, int, int], Array]:
    """Return the union of masks: the box around them and a mask of that size."""
    y0 = min(y for y, _, _ in parts)
    x0 = min(x for _, x, _ in parts)
    y1 = max(y + mask.shape[0] for y, _, mask in parts)
    x1 = max(x + mask.shape[1] for _, x, mask in parts)
    if len(parts) == 1:
        return (y0, x0, y1, x1), parts[0][2]
    if (y1 - y0) * (x1 - x0) > MOST_PIXELS:
        raise InputError(
            f"A region of {y1 - y0} x {x1 - x0} px is too large at full resolution; "
            "use a coarser level of the labels."
        )
    are_binary = all(mask.dtype.kind == "b" for _, _, mask in parts)
    kind = bool if are_binary else np.float32
    union = np.zeros((y1 - y0, x1 - x0), dtype=kind)
    for y, x, mask in parts:
        place = union[y - y0 : y - y0 + mask.shape[0], x - x0 : x - x0 + mask.shape[1]]
        np.maximum(place, mask, out=place)
    return (y0, x0, y1, x1), union
