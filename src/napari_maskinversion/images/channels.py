"""Planes of channels or colours, converted to the pixels that models and viewers show.

Contrast limits are the values of a plane that are shown as black and as white.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.regions import top_of_bits
from .lazy_plane import LazyPlane, blocks
from .plane_source import Array, ArrayPlane, Box, Level, PlaneSource, nothing_to_see

FloatArray = npt.NDArray[np.float32]
Limits = tuple[float, float]
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
# Pixels. Larger levels are sampled on a grid of patches.
_MAX_WHOLE: Final = 4_000_000
_PATCH: Final = 512
_BLOCK: Final = 2048  # pixels of a side that are read at once
_PERCENTILES: Final = (0.1, 99.9)
_BRIGHTEST: Final = 99.99  # percent of colours; hot pixels lie above
_OVERSHOOT: Final = 0.01  # of floats in 0..1 that were interpolated
_COLOURS: Final = slice(0, 3)  # without opacity


def default_colours(count: int) -> tuple[Colour, ...]:
    """Return a colour for each of `count` channels."""
    if count == 1:
        return (WHITE,)
    colours = _TWO if count == 2 else _MANY
    return tuple(colours[index % len(colours)] for index in range(count))


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One channel and its display settings."""

    plane: LazyPlane
    # Values shown as black and as full `colour`; None means `auto_limits`
    limits: Limits | None = None
    colour: Colour = WHITE  # RGB in 0..1
    gamma: float = 1.0
    name: str = ""


class _LazySource:
    """What planes of channels and of colours have in common as a `PlaneSource`."""

    def __init__(self, *planes: LazyPlane) -> None:
        self._planes = planes

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W)."""
        return self._planes[0].shape

    @property
    def levels(self) -> tuple[Level, ...]:
        """Pyramid levels."""
        return self._planes[0].levels

    def forget(self) -> None:
        """Drop cached pixels; they are read again when needed."""
        for plane in self._planes:
            plane.forget()


class ChannelPlane(_LazySource):
    """Channels added together; a single white channel is grey."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        if not channels:
            raise InputError("No channel is chosen; choose at least one.")
        for channel in channels:
            if channel.plane.levels != channels[0].plane.levels:
                raise InputError(
                    f"Channel {channel.name!r} does not have the size of {channels[0].name!r}."
                )
        super().__init__(*(channel.plane for channel in channels))
        self._channels = tuple(channels)
        self._auto: dict[int, Limits | InputError] = {}

    @property
    def limits(self) -> tuple[Limits, ...]:
        """Contrast limits of each channel, computed on first use."""
        return tuple(self._limit(index) or (0.0, 1.0) for index in range(len(self._channels)))

    def _auto_limits(self, index: int) -> Limits | InputError:
        """Compute a channel's own limits once; an error if it has none."""
        if index not in self._auto:
            try:
                self._auto[index] = auto_limits(self._channels[index].plane)
            except InputError as error:
                self._auto[index] = error
        return self._auto[index]

    def _limit(self, index: int) -> Limits | None:
        """Return the limits of a channel; None for an empty one among several, which is black."""
        limits = self._channels[index].limits or self._auto_limits(index)
        if not isinstance(limits, InputError):
            return limits
        if len(self._channels) == 1:
            raise limits
        return None

    def read(self, level: int, box: Box) -> Array:
        """Read a box: (h, w) or (h, w, 3), float32 in 0..1; eight-bit grey stays eight bits."""
        total = np.zeros((box[2] - box[0], box[3] - box[1], 3), np.float32)
        for index, channel in enumerate(self._channels):
            limits = self._limit(index)
            if limits is None:
                continue
            values = channel.plane.read(level, box)
            grey = len(self._channels) == 1 and channel.colour == WHITE
            unit: Array = values
            if not (grey and _is_whole(values, limits) and channel.gamma == 1):
                unit = scale_to_unit(values, limits, channel.gamma)
            unit = _blackened(unit, channel.plane.no_value(values))
            if grey:
                return unit
            total += unit[:, :, None] * np.asarray(channel.colour, dtype=np.float32)
        return np.clip(total, 0, 1, out=total)

    def values(self, box: Box) -> Array:
        """Read the stored values of the channels."""
        return np.stack([channel.plane.values(box) for channel in self._channels], axis=-1)

    def check(self) -> None:
        """Refuse a plane on which every channel is empty or constant."""
        errors = [self._auto_limits(index) for index in range(len(self._channels))]
        if all(isinstance(error, InputError) for error in errors):
            raise errors[0]  # type: ignore[misc]


class ColourPlane(_LazySource):
    """RGB or RGBA; RGBA is composited onto black."""

    def __init__(self, plane: LazyPlane) -> None:
        super().__init__(plane)
        self._plane = plane
        self._limits: Limits | None = None
        self._opaque: float | None = None
        if plane.dtype.kind in "ub" and plane.dtype.itemsize == 1:
            self._limits = (0.0, 1.0 if plane.dtype.kind == "b" else 255.0)

    def read(self, level: int, box: Box) -> Array:
        """Read a box (h, w, 3): uint8 if stored as uint8, else float32 in 0..1."""
        values = self._plane.read(level, box)
        colours: Array = values[:, :, :3]
        if self._limits is None:
            self._limits = auto_limits(self._plane)
        if not (self._plane.samples == 3 and _is_whole(values, self._limits)):
            colours = scale_to_unit(colours, self._limits)
        colours = _blackened(colours, self._plane.no_value(values))
        if self._plane.samples == 3:
            return colours
        if self._opaque is None:
            self._opaque = _opaque(self._plane)
        mixed = colours * scale_to_unit(values[:, :, 3:], (0.0, self._opaque))
        if values.dtype == np.uint8:
            return np.asarray(np.round(mixed * 255), dtype=np.uint8)
        return np.asarray(mixed, dtype=np.float32)

    def values(self, box: Box) -> Array:
        """Read the stored colours."""
        return self._plane.values(box)[..., :3]

    def check(self) -> None:
        """Refuse a plane of one colour, or without a finite value."""
        limits = auto_limits(self._plane)
        self._limits = self._limits or limits
        level = len(self.levels) - 1
        first: Array | None = None
        for box in blocks(self.levels[level].shape, _BLOCK):
            colours = self.read(level, box)
            first = colours[0, 0] if first is None else first
            if bool((colours != first).any()):
                return
        raise InputError(nothing_to_see(first))


def as_source(image: npt.ArrayLike | PlaneSource) -> PlaneSource:
    """Return a plane unchanged, and an array as a plane in memory; see `auto_limits`."""
    if hasattr(image, "levels") and hasattr(image, "read"):
        return cast("PlaneSource", image)
    plane = ArrayPlane(image)
    pixels = plane.pixels
    if pixels.dtype in (np.uint8, np.bool_) or pixels.dtype.kind not in "iuf":
        return plane
    slack = 0.0
    if pixels.shape[2:] > (1,):
        slack = _OVERSHOOT
    # NaN fails: it is no value, as in a file.
    if pixels.dtype.kind == "f" and pixels.min() >= -slack and pixels.max() <= 1 + slack:
        return plane
    return source_of(pixels)


def source_of(pixels: Array, nodata: float | None = None) -> PlaneSource:
    """Return an array (H, W), (H, W, 1), RGB or RGBA as a file with it is seen."""
    if pixels.ndim == 3 and pixels.shape[2] > 1:
        return ColourPlane(LazyPlane([pixels], samples=True, nodata=nodata))
    grey = pixels if pixels.ndim == 2 else pixels[:, :, 0]
    return ChannelPlane([Channel(plane=LazyPlane([grey], nodata=nodata))])


def auto_limits(plane: LazyPlane) -> Limits:
    """Compute the contrast limits of a plane.

    uint8, bool and floats in 0..1 keep their range. Colours of uint16 have that of 8, 10, 12, 14 or
    16 bits, see `top_of_bits`, but for hot pixels. Other types have no range of their own: their
    limits are percentiles of the values on the coarsest level (for a large plane without coarser
    levels, on a grid of patches). What is not finite or declared as no data is no value.
    """
    values = _sample(plane)
    if not values.size:
        values = np.asarray(_extremes(plane))  # values lie only between the patches
        values = values[np.isfinite(values)]
    if not values.size:
        raise InputError(
            "The image has no finite value (all are NaN, infinite or no data); choose another "
            "plane."
        )
    low = float(values.min())
    high = float(values.max())
    if plane.samples and plane.dtype == np.uint16:
        peak = np.percentile(values, _BRIGHTEST, method="lower")
        return 0.0, top_of_bits(float(peak))
    if low == high:
        low, high = _extremes(plane)
    if low == high:
        raise InputError(nothing_to_see(values.flat[0]))
    if plane.dtype == np.uint8:
        return 0.0, 255.0
    slack = 0.0
    if plane.samples:
        slack = _OVERSHOOT
    if plane.dtype.kind == "b" or (plane.dtype.kind == "f" and low >= -slack and high <= 1 + slack):
        return 0.0, 1.0
    bottom, top = np.percentile(values, _PERCENTILES).tolist()
    # If nearly all pixels are background, both percentiles are the background.
    if bottom < top:
        return (bottom, top)
    return (low, high)


def _opaque(plane: LazyPlane) -> float:
    """Return the opacity of what is not transparent."""
    if plane.dtype.kind not in "iu":
        return 1.0
    if plane.dtype != np.uint16:
        return float(np.iinfo(plane.dtype).max)
    return top_of_bits(float(_sample(plane, slice(3, 4)).max(initial=0)))


def _is_whole(values: Array, limits: Limits) -> bool:
    """Return whether values are seen unchanged."""
    return values.dtype == np.uint8 and limits == (0.0, 255.0)


def _blackened(pixels: Array, where: Array | None) -> Array:
    if where is None:
        return pixels
    where = where if pixels.ndim == 2 else where[..., None]
    return np.where(where, pixels.dtype.type(0), pixels)


def _sample(plane: LazyPlane, part: slice = _COLOURS) -> Array:
    """Sample the values of a plane, at most about four million pixels."""
    level = len(plane.levels) - 1
    height, width = plane.levels[level].shape
    if height * width <= _MAX_WHOLE:
        return _values(plane, level, (0, 0, height, width), part)
    parts = []
    for row in range(4):
        for column in range(4):
            y = min(max(0, (2 * row + 1) * height // 8 - _PATCH // 2), max(0, height - _PATCH))
            x = min(max(0, (2 * column + 1) * width // 8 - _PATCH // 2), max(0, width - _PATCH))
            box = (y, x, min(y + _PATCH, height), min(x + _PATCH, width))
            parts.append(_values(plane, level, box, part))
    return np.concatenate(parts)


def _extremes(plane: LazyPlane) -> Limits:
    """Find the smallest and largest finite value of the coarsest level, block by block."""
    level = len(plane.levels) - 1
    low = np.inf
    high = -np.inf
    for box in blocks(plane.levels[level].shape, _BLOCK):
        values = _values(plane, level, box)
        if values.size:
            low = min(low, float(values.min()))
            high = max(high, float(values.max()))
        # 8-bit images keep their range, so any two values will do.
        if low < high and plane.dtype.itemsize == 1:
            break
    return low, high


def _values(plane: LazyPlane, level: int, box: Box, part: slice = _COLOURS) -> Array:
    """Read the values of a box (n,), without what is not finite or no data."""
    values = plane.read(level, box)
    if values.dtype.kind == "c":
        raise InputError(
            f"The image contains values of type {values.dtype}; an image has real numbers."
        )
    nothing = plane.no_value(values)
    if plane.samples:
        values = values[..., part]
    if nothing is None:
        flat = values.ravel()
    else:
        flat = values[~nothing].ravel()
    if values.dtype.kind == "f":
        return flat[np.isfinite(flat)]
    return flat


def scale_to_unit(values: Array, limits: Limits, gamma: float = 1.0) -> FloatArray:
    """Scale values between two limits to 0..1.

    NaN becomes the lower limit; infinities and values outside the limits are clipped.
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
