"""Image planes that are read piece by piece.

Plane coordinates refer to full resolution; integers are pixel centres. Pixel p of a level with
step s is centred on plane coordinate ``s * p + (s - 1) / 2``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.regions import as_array

Array = npt.NDArray[Any]
Box = tuple[int, int, int, int]

# Pixels read at once when a window is downsampled while it is read.
STRIP: Final = 8_000_000
_OVERVIEW: Final = 1024  # pixels of an overview's longer side, about
_SIDE: Final = 256  # pixels of the shorter side at a glance; the demo model sees 128
_WHOLE: Final = 50_000_000  # pixels of a level that is read whole
_BAND: Final = 8  # rows read of each block of a larger one
_DARK: Final = 0.1  # of white
_FEW: Final = 0.01  # share of pixels: spots on black are a picture
_glances: WeakKeyDictionary[PlaneSource, Array] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Level:
    """One level of a pyramid."""

    shape: tuple[int, int]  # Pixels (h, w)
    step: tuple[float, float] = (1.0, 1.0)  # Plane pixels per pixel of this level, along y and x


class PlaneSource(Protocol):
    """An image plane as the model sees it, read box by box."""

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W) of the plane at full resolution."""

    @property
    def levels(self) -> tuple[Level, ...]:
        """Pyramid levels, finest first; the first one has the plane's shape."""

    def read(self, level: int, box: Box) -> Array:
        """Read pixels ``(y0, x0, y1, x1)`` of a level.

        Shapes: returns (h, w).
        """

    def values(self, box: Box) -> Array:
        """Read the values of a box in each channel, NaN for pixels without a value.

        Shapes: returns (h, w, channels).
        """

    def check(self) -> None:
        """Refuse a plane with nothing to see; this is cheap."""


class ArrayPlane:
    """A plane in memory.

    Shapes: pixels (H, W).
    """

    def __init__(self, pixels: npt.ArrayLike) -> None:
        array = as_array(pixels)
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
        """The only level."""
        return (Level(self.shape),)

    def read(self, level: int, box: Box) -> Array:
        """Return a view of a box."""
        y0, x0, y1, x1 = box
        return self.pixels[y0:y1, x0:x1]

    def values(self, box: Box) -> Array:
        """Return the values of a box without opacity."""
        return np.atleast_3d(self.read(0, box))[..., :3]

    def check(self) -> None:
        """Refuse constant images and values that are not finite."""
        low = self.pixels.min()
        high = self.pixels.max()
        if self.pixels.dtype.kind == "f" and not (np.isfinite(low) and np.isfinite(high)):
            count = int(self.pixels.size - np.isfinite(self.pixels).sum())
            raise InputError(
                f"The image contains {count} values that are not finite (NaN or infinity); "
                "fill them first."
            )
        # Colours are compared one by one: plain red is 255 and 0, and has nothing to see.
        if bool((self.pixels == self.pixels[0, 0]).all()):
            raise InputError(nothing_to_see(self.pixels[0, 0]))


def nothing_to_see(value: object) -> str:
    """Return the message for a constant plane."""
    return (
        f"Every pixel of the image has the same value ({value}); there is nothing to see. "
        "Choose another image or plane."
    )


def read_reduced(source: PlaneSource, level: int, box: Box, reduce: int) -> Array:
    """Read a box of a level, averaging blocks of ``reduce`` x ``reduce`` pixels.

    Shapes: returns (h / reduce, w / reduce).
    """
    y0, x0, y1, x1 = box
    height, width = source.levels[level].shape
    right = min(x1, width)
    if reduce == 1:
        return source.read(level, (y0, x0, min(y1, height), right))
    columns = np.arange(0, right - x0, reduce)
    rows = max(1, STRIP // ((right - x0) * reduce)) * reduce
    parts = []
    # In strips: a plane without a pyramid may be larger than memory.
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


def overview(source: PlaneSource) -> Array:
    """Read a whole plane, reduced until its longer side is about 1,024 pixels or a little more."""
    fits = [i for i, level in enumerate(source.levels) if max(level.shape) >= _OVERVIEW]
    level = 0
    if fits:
        level = fits[-1]
    height, width = source.levels[level].shape
    reduce = max(1, max(height, width) // _OVERVIEW)
    box = (0, 0, -(-height // reduce) * reduce, -(-width // reduce) * reduce)
    return read_reduced(source, level, box, reduce)


def glance(source: PlaneSource) -> Array:
    """Read a plane at about `_SIDE` pixels, once; of a very large one some rows of each block."""
    if source not in _glances:
        level = 0
        for number, pixels in enumerate(source.levels):
            if min(pixels.shape) >= _SIDE:
                level = number
        height, width = source.levels[level].shape
        reduce = max(1, min(height, width) // _SIDE)
        band = height if height * width <= _WHOLE else _BAND
        tops = range(0, height, height if band == height else reduce)
        boxes = ((top, 0, min(top + band, height), width) for top in tops)
        parts = [read_reduced(source, level, box, reduce) for box in boxes]
        _glances[source] = np.concatenate(parts)
    return _glances[source]


def brightness_note(source: PlaneSource) -> str:
    """Return a message about a plane that is nearly black or white; reads as `glance` does."""
    pixels = glance(source)
    light = pixels if pixels.ndim == 2 else pixels[..., :3].max(2)
    light = light / (255.0 if light.dtype == np.uint8 else 1.0)
    for name, seen in (("black", light > _DARK), ("white", light < 1 - _DARK)):
        if seen.mean() < _FEW:
            return (
                f"The image is nearly {name} as the model sees it (mean brightness "
                f"{light.mean():.1%}); stretch its contrast."
            )
    return ""
