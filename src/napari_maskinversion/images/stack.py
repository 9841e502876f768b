"""Images of any number of dimensions, read one plane at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..base.errors import InputError
from ..base.units import Units
from .channels import Channel, ChannelPlane, ColourPlane, default_colours
from .lazy_plane import LazyPlane
from .plane_source import PlaneSource

_OF_A_PLANE: Final = ("y", "x", "c", "s")  # axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """An image of any number of dimensions; pixels are read when needed."""

    levels: tuple[Any, ...]  # NumPy, dask or zarr, finest first
    # Names: "y", "x", "c" for channels, "s" for colours; all others count planes
    axes: tuple[str, ...]
    name: str = "the image"
    channels: tuple[str, ...] = field(default=())  # Channel names; empty if unknown
    units: Units | None = None
    # Closes the underlying file
    on_close: Callable[[], None] | None = field(default=None, repr=False, compare=False)
    # Names of the images (positions, series) in the file, of which this is one; empty if the file
    # can hold only one
    images: tuple[str, ...] = ()
    series: int = 0  # The number of this one among them
    notes: tuple[str, ...] = ()  # What its reader cannot know about its pixels, for the user
    # Whether the names of the axes are the usual ones of an array that has none
    guessed: bool = False
    nodata: float | None = None  # The number that stands for no value, besides NaN

    def close(self) -> None:
        """Close the underlying file; planes cannot be read after this."""
        if self.on_close is not None:
            self.on_close()

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of the axes at the finest level, by name."""
        return dict(zip(self.axes, map(int, self.levels[0].shape), strict=True))

    @property
    def plane_axes(self) -> dict[str, int]:
        """Names and sizes of the axes that count planes."""
        return {name: size for name, size in self.sizes.items() if name not in _OF_A_PLANE}

    @property
    def pages(self) -> dict[str, int]:
        """Names and sizes of all axes longer than 1 other than y, x and colours."""
        pixel_axes = ("y", "x", "s")
        return {name: n for name, n in self.sizes.items() if name not in pixel_axes and n > 1}

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W) of a plane."""
        return self.sizes["y"], self.sizes["x"]

    @property
    def channel_names(self) -> list[str]:
        """Number and name of each channel: "0 DAPI"; empty without an axis of channels."""
        if "c" not in self.axes:
            return []
        count = self.sizes["c"]
        if len(self.channels) == count:
            names = self.channels
        else:
            names = ("",) * count
        return [f"{number} {name}".strip() for number, name in enumerate(names)]

    @property
    def channel_count(self) -> int:
        """How many channels or colours a pixel has."""
        return self.sizes.get("c", 1) * self.sizes.get("s", 1)

    def used_channels(self, chosen: Sequence[str] | None = None) -> list[str]:
        """Return the names of `channel_names` that the model sees."""
        names = self.channel_names
        if names:
            return [names[number] for number in self._channel_numbers(chosen)]
        return []

    def position(self, text: str) -> dict[str, int]:
        """Parse "z=12,t=3", or bare numbers in the order of the axes."""
        position: dict[str, int] = {}
        sizes = self.plane_axes
        for place, item in enumerate(part.strip() for part in text.split(",") if part.strip()):
            name, equals, value = item.rpartition("=")
            if not equals and place < len(sizes):
                name = list(sizes)[place]
            name = name.strip().lower()
            if name not in sizes:
                axes_text = ", ".join(f"{axis} (0 to {size - 1})" for axis, size in sizes.items())
                raise InputError(
                    f"{self.name} has no axis for {item!r}; it has {axes_text or 'none'}."
                )
            if not value.strip().isdecimal() or int(value) >= sizes[name]:
                raise InputError(
                    f"There is no plane {item!r} in {self.name}: {name} goes from 0 to "
                    f"{sizes[name] - 1}."
                )
            if name in position:
                raise InputError(
                    f"{text!r} names {name} twice ({name}={position[name]} and "
                    f"{name}={int(value)}); choose one index on each axis."
                )
            position[name] = int(value)
        return position

    def source(
        self, position: Mapping[str, int] | None = None, channels: Sequence[str] | None = None
    ) -> PlaneSource:
        """Return one plane as the model sees it."""
        chosen = dict(position or {})
        for name, size in self.plane_axes.items():
            if name not in chosen and size > 1:
                raise InputError(
                    f"{self.name} has {size} planes along {name}; choose one: {name}=0 to "
                    f"{name}={size - 1} (--plane)."
                )
        axes = (self.axes.index("y"), self.axes.index("x"))
        place = [chosen.get(name, 0) for name in self.axes]
        if "s" in self.axes:
            if channels is not None:
                raise InputError(
                    f"{self.name} is a colour image; it has no channels to choose, so leave them "
                    "out."
                )
            place = place[:-1]
            return ColourPlane(
                LazyPlane(self.levels, axes=axes, index=place, samples=True, nodata=self.nodata)
            )
        numbers = self._channel_numbers(channels)
        channels_of = []
        for number, colour in zip(numbers, default_colours(len(numbers)), strict=True):
            if "c" in self.axes:
                place[self.axes.index("c")] = number
            plane = LazyPlane(self.levels, axes=axes, index=tuple(place), nodata=self.nodata)
            channels_of.append(Channel(plane=plane, colour=colour, name=str(number)))
        return ChannelPlane(channels_of)

    def _channel_numbers(self, chosen: Sequence[str] | None) -> list[int]:
        count = self.sizes.get("c", 1)
        if chosen is None:
            return list(range(count))
        numbers = []
        for name in (part.strip() for part in chosen):
            if name in self.channels:
                numbers.append(self.channels.index(name))
            elif name.isdecimal() and int(name) < count:
                numbers.append(int(name))
            else:
                names = ""
                if self.channels:
                    names = f" ({', '.join(self.channels)})"
                raise InputError(
                    f"{self.name} has no channel {name!r}; it has 0 to {count - 1}{names}."
                )
        return numbers


def check_series(path: Path, series: int, names: Sequence[str]) -> None:
    """Refuse the number of an image that a file does not hold."""
    if series >= len(names):
        listed = ", ".join(f"{number} {name}".strip() for number, name in enumerate(names[:8]))
        raise InputError(
            f"{path} has no image {series}; it holds {len(names)} ({listed}). Choose with --series."
        )


def stack_of(data: Any, *, axes: Sequence[str] | None = None, name: str = "the image") -> Stack:
    """Make a stack of an array, or of a list of arrays from fine to coarse.

    By default the last two axes are rows and columns, or the two before three or four colours.
    """
    if isinstance(data, list | tuple):
        levels = tuple(data)
    else:
        levels = (data,)
    shape = levels[0].shape
    guessed = axes is None
    if axes is None:
        if len(shape) < 2:
            raise InputError(f"{name} has an array of shape {tuple(shape)}; that is not an image.")
        colours = len(shape) > 2 and shape[-1] in (3, 4) and min(shape[-3:-1]) > 4
        last = ("y", "x", "s") if colours else ("y", "x")
        page_count = len(shape) - len(last)
        if 0 < page_count <= 2:
            usual = ("t", "z")[-page_count:]
        else:
            usual = tuple(f"axis{i}" for i in range(page_count))
        axes = (*usual, *last) if page_count else last
    if len(axes) != len(shape) or not {"y", "x"} <= set(axes) or "s" in tuple(axes)[:-1]:
        raise InputError(
            f"Axes {tuple(axes)} do not fit {name} of shape {tuple(shape)}: name each axis, "
            "including y and x, with colours (s) last."
        )
    return Stack(levels=levels, axes=tuple(axes), name=name, guessed=guessed)
