"""Planes of channels or colours, converted to the pixels that models and viewers show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from .contrast_limits import auto_limits, scale_to_unit
from .lazy_plane import LazyPlane, blocks
from .plane_source import Array, Box, Level, nothing_to_see

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
    limits: tuple[float, float] | None = None
    colour: Colour = WHITE  # RGB in 0..1
    gamma: float = 1.0
    name: str = ""

    def __post_init__(self) -> None:
        if self.limits is not None and not self.limits[0] < self.limits[1]:
            raise InputError(
                f"Contrast limits must be two numbers, the lower one first; got {self.limits[0]:g} "
                f"and {self.limits[1]:g}."
            )


class ChannelPlane:
    """Channels added together, as a `PlaneSource`; a single white channel is grey."""

    def __init__(self, channels: Sequence[Channel]) -> None:
        if not channels:
            raise InputError("No channel is chosen; choose at least one.")
        for channel in channels:
            if channel.plane.levels != channels[0].plane.levels:
                raise InputError(
                    f"Channel {channel.name!r} does not have the size of {channels[0].name!r}."
                )
        self._channels = tuple(channels)
        self._auto: dict[int, Limits | InputError] = {}
        self._blank: set[int] = set()

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W)."""
        return self._channels[0].plane.shape

    @property
    def levels(self) -> tuple[Level, ...]:
        """Pyramid levels of the channels."""
        return self._channels[0].plane.levels

    @property
    def limits(self) -> tuple[tuple[float, float], ...]:
        """Contrast limits of each channel, computed on first use."""
        return tuple(self._limit(index) for index in range(len(self._channels)))

    def _auto_limits(self, index: int) -> Limits | InputError:
        """Compute a channel's own limits once; an error if it has none."""
        if index not in self._auto:
            try:
                self._auto[index] = auto_limits(self._channels[index].plane)
            except InputError as error:
                self._auto[index] = error
        return self._auto[index]

    def _limit(self, index: int) -> Limits:
        limits = self._channels[index].limits or self._auto_limits(index)
        if isinstance(limits, InputError):
            if len(self._channels) == 1:
                raise limits
            # One empty channel among several is black.
            self._blank.add(index)
            return 0.0, 1.0
        return limits

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
        """Refuse a plane on which every channel is empty or constant."""
        errors = [self._auto_limits(index) for index in range(len(self._channels))]
        if all(isinstance(error, InputError) for error in errors):
            raise errors[0]  # type: ignore[misc]

    def forget(self) -> None:
        """Drop cached pixels; they are read again when needed."""
        for channel in self._channels:
            channel.plane.forget()


class ColourPlane:
    """RGB or RGBA as a `PlaneSource`; RGBA is composited onto black."""

    def __init__(self, plane: LazyPlane, limits: tuple[float, float] | None = None) -> None:
        if plane.samples not in (3, 4):
            raise InputError(f"Colours are RGB or RGBA; got {plane.samples} values per pixel.")
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
        """Pyramid levels of the plane."""
        return self._plane.levels

    def read(self, level: int, box: Box) -> Array:
        """Read a box (h, w, 3): uint8 if stored as uint8, else float32 in 0..1."""
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
        """Refuse a plane of one colour, or without a finite value."""
        limits = auto_limits(self._plane)
        self._limits = self._limits or limits
        level = len(self.levels) - 1
        first: Array | None = None
        for box in blocks(self.levels[level].shape, 2048):
            colours = self.read(level, box)
            first = colours[0, 0] if first is None else first
            if bool((colours != first).any()):
                return
        raise InputError(nothing_to_see(first))

    def forget(self) -> None:
        """Drop cached pixels; they are read again when needed."""
        self._plane.forget()
