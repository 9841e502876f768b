"""Numbers of any kind to what is seen: channels, colours."""

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

__all__ = [
    "Channel",
    "ChannelPlane",
    "ColourPlane",
    "auto_limits",
    "default_colours",
    "scale_to_unit",
]

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
    """Colours of so many channels."""
    if count == 1:
        return (WHITE,)
    colours = _TWO if count == 2 else _MANY
    return tuple(colours[index % len(colours)] for index in range(count))


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
        self._seen: dict[int, Limits | InputError] = {}
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

    def _look(self, index: int) -> Limits | InputError:
        """Find a channel's own limits, or why it has none; looked for once."""
        if index not in self._seen:
            try:
                self._seen[index] = auto_limits(self._channels[index].plane)
            except InputError as error:
                self._seen[index] = error
        return self._seen[index]

    def _limit(self, index: int) -> Limits:
        given = self._channels[index].limits
        found = self._look(index) if given is None else given
        if isinstance(found, InputError):
            if len(self._channels) == 1:
                raise found
            # One empty channel of several: black, and the others are looked at.
            self._blank.add(index)
            return 0.0, 1.0
        return found

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
        found = [self._look(index) for index in range(len(self._channels))]
        reasons = [reason for reason in found if isinstance(reason, InputError)]
        if len(reasons) == len(found):
            raise reasons[0]

    def forget(self) -> None:
        """Forget pixels that were kept; they are read again when they are needed."""
        for channel in self._channels:
            channel.plane.forget()


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
        found = auto_limits(self._plane)
        if self._limits is None:
            self._limits = found
        level = len(self.levels) - 1
        first: Array | None = None
        for box in blocks(self.levels[level].shape, 2048):
            colours = self.read(level, box)
            first = colours[0, 0] if first is None else first
            if bool((colours != first).any()):
                return
        raise InputError(nothing_to_see(first))

    def forget(self) -> None:
        """Forget pixels that were kept; they are read again when they are needed."""
        self._plane.forget()
