"""Planes of images that are read piece by piece.

Coordinates of a plane are those of its full resolution: whole numbers are pixel centres. Pixel p
of a level with step s is centred on plane coordinate ``s * p + (s - 1) / 2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError

Array = npt.NDArray[Any]
Box = tuple[int, int, int, int]

# Pixels read at once where a window has to be made smaller while it is read.
STRIP: Final = 8_000_000


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a pyramid.

    Parameters
    ----------
    shape : tuple of int
        Pixels (h, w).
    step : tuple of float
        Plane pixels per pixel of this level, along y and x.
    """

    shape: tuple[int, int]
    step: tuple[float, float] = (1.0, 1.0)


class PlaneSource(Protocol):
    """One image plane as a model shall see it, read box by box."""

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W) of the plane at full resolution."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels there are, finest first; the first one has the plane's shape."""

    def read(self, level: int, box: Box) -> Array:
        """Read pixels ``(y0, x0, y1, x1)`` of a level.

        Returns
        -------
        ndarray, shape (h, w) or (h, w, 3)
            uint8, uint16, or finite float32 in 0..1.
        """

    def check(self) -> None:
        """Refuse a plane on which there is nothing to see, at little cost.

        Raises
        ------
        InputError
            If every pixel has the same value, or none has a finite one.
        """


class ArrayPlane:
    """A plane in memory, as the models take it.

    Parameters
    ----------
    pixels : ndarray, shape (H, W), (H, W, 3) or (H, W, 4)
        uint8, uint16, bool, or floats in 0..1.

    Raises
    ------
    InputError
        For another shape, or an image without pixels.
    """

    def __init__(self, pixels: npt.ArrayLike) -> None:
        array = np.asarray(pixels)
        if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
            raise InputError(
                f"An image has to be (height, width) or (height, width, 3); got {array.shape}."
            )
        if array.size == 0:
            raise InputError(f"The image has no pixels: its shape is {array.shape}.")
        self.pixels = array

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W)."""
        return int(self.pixels.shape[0]), int(self.pixels.shape[1])

    @property
    def levels(self) -> tuple[Level, ...]:
        """The one level."""
        return (Level(self.shape),)

    def read(self, level: int, box: Box) -> Array:
        """Cut out a box; nothing is copied."""
        y0, x0, y1, x1 = box
        return self.pixels[y0:y1, x0:x1]

    def check(self) -> None:
        """Refuse constant images and values that are not finite.

        Raises
        ------
        InputError
            Also for a single NaN: the caller knows better than we what it should become.
        """
        low, high = self.pixels.min(), self.pixels.max()
        if self.pixels.dtype.kind == "f" and not (np.isfinite(low) and np.isfinite(high)):
            count = int(self.pixels.size - np.isfinite(self.pixels).sum())
            raise InputError(
                f"The image holds {count} values that are not finite (NaN or infinity); "
                "fill them first."
            )
        # Of colours, each by itself: plain red is 255 and 0, and nothing to see.
        if bool(np.all(self.pixels.min((0, 1)) == self.pixels.max((0, 1)))):
            raise InputError(nothing_to_see(self.pixels[0, 0]))


def nothing_to_see(value: object) -> str:
    """Say that a plane is constant."""
    return (
        f"Every pixel of the image has the same value ({value}); there is nothing to see. "
        "Choose another image or plane."
    )


def as_source(image: npt.ArrayLike | PlaneSource) -> PlaneSource:
    """Take a plane as it is, and an array as a plane in memory."""
    if hasattr(image, "levels") and hasattr(image, "read"):
        return cast("PlaneSource", image)
    return ArrayPlane(image)


def read_reduced(source: PlaneSource, level: int, box: Box, reduce: int) -> Array:
    """Read a box of a level, ``reduce`` x ``reduce`` pixels averaged into one.

    Parameters
    ----------
    source : PlaneSource
    level : int
    box : tuple of int
        In pixels of the level; may stick out below and to the right by less than ``reduce``:
        blocks that are cut off average what there is of them.
    reduce : int

    Returns
    -------
    ndarray, shape (h / reduce, w / reduce) or the same with 3 colours
        Of the type the source gives.
    """
    y0, x0, y1, x1 = box
    height, width = source.levels[level].shape
    right = min(x1, width)
    if reduce == 1:
        return source.read(level, (y0, x0, min(y1, height), right))
    columns = np.arange(0, right - x0, reduce)
    rows = max(1, STRIP // ((right - x0) * reduce)) * reduce
    parts = []
    # In strips: a plane without a pyramid may be far larger than memory.
    for top in range(y0, y1, rows):
        bottom = min(top + rows, y1, height)
        strip = source.read(level, (top, x0, bottom, right))
        starts = np.arange(0, bottom - top, reduce)
        total = np.add.reduceat(strip, starts, axis=0, dtype=np.float32)
        total = np.add.reduceat(total, columns, axis=1)
        high = np.diff(np.append(starts, bottom - top))
        wide = np.diff(np.append(columns, right - x0))
        share = np.outer(high, wide).astype(np.float32)
        mean = total / (share[:, :, None] if total.ndim == 3 else share)
        if strip.dtype.kind in "ui":
            mean = np.round(mean).astype(strip.dtype)
        parts.append(mean)
    return np.concatenate(parts)
