"""Numbers of any kind to what is seen: contrast limits, channels, colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core.errors import InputError
from .lazy import LazyPlane, blocks
from .source import Array, Box, Level, nothing_to_see

FloatArray = npt.NDArray[np.float32]
Colour = tuple[float, float, float]

WHITE: Final[Colour] = (1.0, 1.0, 1.0)
# One channel is grey, two are green and magenta (colour-blind readers can tell them apart).
_TWO: Final[tuple[Colour, ...]] = ((0.0, 1.0, 0.0), (1.0, 0.0, 1.0))
_MANY: Final[tuple[Colour, ...]] = (
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (0.0, 1.0, 1.0),
    (1.0, 0.0, 1.0),
    (1.0, 1.0, 0.0),
)
# Levels up to this size are looked at whole; of larger ones, a grid of patches.
_SEEN_WHOLE: Final = 4_000_000
_PATCH: Final = 512
PERCENTILES: Final = (0.1, 99.9)


def default_colours(count: int) -> tuple[Colour, ...]:
    """Colours of so many channels."""
    if count == 1:
        return (WHITE,)
    colours = _TWO if count == 2 else _MANY
    return tuple(colours[index % len(colours)] for index in range(count))


def auto_limits(
    plane: LazyPlane, percentiles: tuple[float, float] = PERCENTILES
) -> tuple[float, float]:
    """Contrast limits of a plane.

    Eight bits and bool keep their range, and so do floats in 0..1. Other numbers have no range of
    their own: theirs are percentiles of the finite values, taken on the coarsest level (of a large
    plane without coarser ones, on a grid of patches).

    Raises
    ------
    InputError
        If no value is finite, or all are the same.
    """
    values = _sample(plane)
    if not values.size:
        values = _finite(np.asarray(_extremes(plane)))  # finite only between the patches
    if not values.size:
        raise InputError(
            "The image has no finite value (all are NaN or infinite); choose another plane."
        )
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = _extremes(plane)
    if low == high:
        raise InputError(nothing_to_see(values.flat[0]))
    if plane.dtype == np.uint8:
        return 0.0, 255.0
    if plane.dtype.kind == "b" or (plane.dtype.kind == "f" and low >= 0 and high <= 1):
        return 0.0, 1.0
    bottom, top = (float(value) for value in np.percentile(values, percentiles))
    # Where nearly all is background, the percentiles see nothing else.
    return (bottom, top) if bottom < top else (low, high)


def _sample(plane: LazyPlane) -> Array:
    """Finite values of a plane, of about four million pixels at most."""
    level = len(plane.levels) - 1
    height, width = plane.levels[level].shape
    if height * width <= _SEEN_WHOLE:
        return _finite(plane.read(level, (0, 0, height, width)))
    parts = []
    for row in range(4):
        for column in range(4):
            y = min(max(0, (2 * row + 1) * height // 8 - _PATCH // 2), max(0, height - _PATCH))
            x = min(max(0, (2 * column + 1) * width // 8 - _PATCH // 2), max(0, width - _PATCH))
            box = (y, x, min(y + _PATCH, height), min(x + _PATCH, width))
            parts.append(_finite(plane.read(level, box)))
    return np.concatenate(parts)


def _extremes(plane: LazyPlane) -> tuple[float, float]:
    """Smallest and largest finite value of the coarsest level, read in blocks."""
    level = len(plane.levels) - 1
    low, high = np.inf, -np.inf
    for box in blocks(plane.levels[level].shape, 2048):
        values = _finite(plane.read(level, box))
        if values.size:
            low, high = min(low, float(values.min())), max(high, float(values.max()))
        # Eight bits keep their range: any two values will do.
        if low < high and plane.dtype.itemsize == 1:
            break
    return low, high


def _finite(values: Array) -> Array:
    if values.dtype.kind == "c":
        raise InputError(
            f"The image holds values of type {values.dtype}; an image has real numbers."
        )
    flat = values.ravel()
    return flat[np.isfinite(flat)] if values.dtype.kind == "f" else flat


def scale_to_unit(values: Array, limits: tuple[float, float], gamma: float = 1.0) -> FloatArray:
    """Stretch numbers between two limits to 0..1.

    NaN is shown as the lower limit; infinities and whatever lies outside are clipped.
    """
    low, high = limits
    exact = values.dtype.itemsize >= 8 or (values.dtype.kind in "iu" and values.dtype.itemsize >= 4)
    wide: Any = np.float64 if exact else np.float32
    with np.errstate(invalid="ignore", over="ignore"):
        unit = (values.astype(wide) - wide(low)) / wide(high - low if high > low else 1.0)
    unit = np.clip(np.nan_to_num(unit, copy=False, nan=0.0, posinf=1.0, neginf=0.0), 0, 1)
    if gamma != 1:
        unit = unit**gamma
    return np.asarray(unit, dtype=np.float32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One channel and how it is shown.

    Parameters
    ----------
    plane : LazyPlane
    limits : tuple of float or None
        Values shown as black and as `colour`; None takes `auto_limits`.
    colour : tuple of float
        RGB in 0..1.
    gamma : float
    name : str
    """

    plane: LazyPlane
    limits: tuple[float, float] | None = None
    colour: Colour = WHITE
    gamma: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        if self.limits is not None and not self.limits[0] < self.limits[1]:
            raise InputError(
                f"Contrast limits must be two numbers, the lower one first; got {self.limits[0]:g} "
                f"and {self.limits[1]:g}."
            )


class ChannelPlane:
    """Channels added up, as a `PlaneSource`; a single white one is grey.

    Parameters
    ----------
    channels : sequence of Channel
        At least one, all of the same size.

    Raises
    ------
    InputError
        If there is none, or their sizes differ.
    """

    def __init__(self, channels: Sequence[Channel]) -> None:
        if not channels:
            raise InputError("No channel is chosen; choose at least one.")
        for channel in channels:
            if channel.plane.levels != channels[0].plane.levels:
                raise InputError(
                    f"Channel {channel.name!r} is of another size than {channels[0].name!r}."
                )
        self._channels = tuple(channels)
        self._found: dict[int, tuple[float, float]] = {
            place: c.limits for place, c in enumerate(channels) if c.limits is not None
        }
        self._blank: set[int] = set()

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W)."""
        return self._channels[0].plane.shape

    @property
    def levels(self) -> tuple[Level, ...]:
        """The channels' levels."""
        return self._channels[0].plane.levels

    @property
    def limits(self) -> tuple[tuple[float, float], ...]:
        """Contrast limits of each channel; found when first asked for."""
        return tuple(self._limit(index) for index in range(len(self._channels)))

    def _limit(self, index: int) -> tuple[float, float]:
        if index not in self._found:
            try:
                self._found[index] = auto_limits(self._channels[index].plane)
            except InputError:
                if len(self._channels) == 1:
                    raise
                # One empty channel of several: black, and the others are looked at.
                self._blank.add(index)
                self._found[index] = (0.0, 1.0)
        return self._found[index]

    def read(self, level: int, box: Box) -> Array:
        """Read a box: (h, w) or (h, w, 3), float32 in 0..1; eight-bit grey stays eight bits."""
        if len(self._channels) == 1 and self._channels[0].colour == WHITE:
            only, limits = self._channels[0], self._limit(0)
            values = only.plane.read(level, box)
            if values.dtype.name == "uint8" and limits == (0.0, 255.0) and only.gamma == 1:
                return values
            return scale_to_unit(values, limits, only.gamma)
        total: FloatArray | None = None
        for index, channel in enumerate(self._channels):
            limits = self._limit(index)
            if index in self._blank:
                continue
            unit = scale_to_unit(channel.plane.read(level, box), limits, channel.gamma)
            colour = unit[:, :, None] * np.asarray(channel.colour, dtype=np.float32)
            total = colour if total is None else total + colour
        if total is None:
            total = np.zeros((box[2] - box[0], box[3] - box[1], 3), np.float32)
        return np.clip(total, 0, 1, out=total)

    def check(self) -> None:
        """Refuse a plane of which no channel shows anything.

        Raises
        ------
        InputError
        """
        reasons = []
        for channel in self._channels:
            try:
                auto_limits(channel.plane)
            except InputError as error:
                reasons.append(error)
        if len(reasons) == len(self._channels):
            raise reasons[0]


class ColourPlane:
    """RGB or RGBA as a `PlaneSource`; RGBA is laid over black.

    Parameters
    ----------
    plane : LazyPlane
        With ``samples=True``; three or four of them.
    limits : tuple of float or None
        None keeps colours of 8 and 16 bits and floats in 0..1 as they are and takes `auto_limits`
        for everything else.
    """

    def __init__(self, plane: LazyPlane, limits: tuple[float, float] | None = None) -> None:
        if plane.samples not in (3, 4):
            raise InputError(f"Colours are RGB or RGBA; got {plane.samples} values a pixel.")
        self._plane = plane
        self._limits = limits
        if limits is None and plane.dtype.kind in "ub" and plane.dtype.itemsize <= 2:
            top = 1 if plane.dtype.kind == "b" else np.iinfo(plane.dtype).max
            self._limits = (0.0, float(top))

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W)."""
        return self._plane.shape

    @property
    def levels(self) -> tuple[Level, ...]:
        """The plane's levels."""
        return self._plane.levels

    def read(self, level: int, box: Box) -> Array:
        """Read a box (h, w, 3): uint8 where it is stored so, else float32 in 0..1."""
        values = self._plane.read(level, box)
        colours = values[:, :, :3]
        if self._limits is None:
            self._limits = auto_limits(self._plane)
        if self._plane.samples == 3:
            if values.dtype.name == "uint8" and self._limits == (0.0, 255.0):
                return colours
            return scale_to_unit(colours, self._limits)
        opacity: Any = values[:, :, 3:]
        if values.dtype.kind in "iu":
            opacity = opacity / np.float32(np.iinfo(values.dtype).max)
        else:
            opacity = np.clip(np.nan_to_num(opacity.astype(np.float32)), 0, 1)
        mixed = scale_to_unit(colours, self._limits) * opacity
        if values.dtype.name == "uint8":
            return np.asarray(np.round(mixed * 255), dtype=np.uint8)
        return np.asarray(mixed, dtype=np.float32)

    def check(self) -> None:
        """Refuse a plane of one colour, or of no finite value.

        Raises
        ------
        InputError
        """
        auto_limits(self._plane)
        level = len(self.levels) - 1
        first: Array | None = None
        for box in blocks(self.levels[level].shape, 2048):
            colours = self.read(level, box)
            first = colours[0, 0] if first is None else first
            if bool((colours != first).any()):
                return
        raise InputError(nothing_to_see(first))
