"""Images of any number of dimensions, of which one plane is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from ..base.errors import InputError
from ..base.units import Units
from .channels import Channel, ChannelPlane, ColourPlane, default_colours
from .lazy_plane import LazyPlane
from .plane_source import PlaneSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """An image of any number of dimensions; pixels are read when they are needed.

    Parameters
    ----------
    levels : tuple of array-like
        Numpy, dask or zarr, finest first.
    axes : tuple of str
        Names: "y", "x", "c" channels, "s" colours; all others are planes.
    name : str
    channels : tuple of str
        Names of the channels, as far as they have some.
    units : Units or None
    on_close : callable or None
        Closes the file behind it.
    """

    levels: tuple[Any, ...]
    axes: tuple[str, ...]
    name: str = "the image"
    channels: tuple[str, ...] = field(default=())
    units: Units | None = None
    on_close: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    def close(self) -> None:
        """Close the file behind it; its planes cannot be read any more."""
        if self.on_close is not None:
            self.on_close()

    def __enter__(self) -> Stack:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def plane_axes(self) -> dict[str, int]:
        """Names and sizes of the axes that planes are counted along."""
        sizes = zip(self.axes, self.levels[0].shape, strict=True)
        return {name: int(size) for name, size in sizes if name not in ("y", "x", "c", "s")}

    @property
    def pages(self) -> dict[str, int]:
        """Axes along which there is more than one plane, channels too."""
        sizes = zip(self.axes, self.levels[0].shape, strict=True)
        return {name: int(n) for name, n in sizes if name not in ("y", "x", "s") and n > 1}

    @property
    def shape(self) -> tuple[int, int]:
        """Pixels (H, W) of a plane."""
        size = dict(zip(self.axes, self.levels[0].shape, strict=True))
        return int(size["y"]), int(size["x"])

    def position(self, text: str) -> dict[str, int]:
        """Read "z=12,t=3", or numbers alone in the order of the axes.

        Raises
        ------
        InputError
            For an axis or a place that is not there, or an axis named twice.
        """
        found: dict[str, int] = {}
        sizes = self.plane_axes
        for place, item in enumerate(part.strip() for part in text.split(",") if part.strip()):
            name, equals, value = item.rpartition("=")
            if not equals and place < len(sizes):
                name = list(sizes)[place]
            name = name.strip().lower()
            if name not in sizes:
                own = ", ".join(f"{axis} (0 to {size - 1})" for axis, size in sizes.items())
                raise InputError(f"{self.name} has no axis for {item!r}; it has {own or 'none'}.")
            if not value.strip().isdecimal() or int(value) >= sizes[name]:
                raise InputError(
                    f"There is no plane {item!r} in {self.name}: {name} goes from 0 to "
                    f"{sizes[name] - 1}."
                )
            if name in found:
                raise InputError(
                    f"{text!r} names {name} twice ({name}={found[name]} and {name}={int(value)}); "
                    "one plane is looked at, so give one place on each axis."
                )
            found[name] = int(value)
        return found

    def source(
        self, position: Mapping[str, int] | None = None, channels: Sequence[str] | None = None
    ) -> PlaneSource:
        """One plane as a model shall see it.

        Raises
        ------
        InputError
            If a plane has to be chosen and is not, or a channel is not there.
        """
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
                raise InputError(f"{self.name} is a colour image; it has no channels to choose.")
            return ColourPlane(LazyPlane(self.levels, axes=axes, index=place[:-1], samples=True))
        numbers = self._channel_numbers(channels)
        planes = []
        for number in numbers:
            if "c" in self.axes:
                place[self.axes.index("c")] = number
            planes.append(LazyPlane(self.levels, axes=axes, index=tuple(place)))
        colours = default_colours(len(planes))
        return ChannelPlane(
            [
                Channel(plane=plane, colour=colour, name=str(number))
                for plane, colour, number in zip(planes, colours, numbers, strict=True)
            ]
        )

    def _channel_numbers(self, chosen: Sequence[str] | None) -> list[int]:
        count = int(self.levels[0].shape[self.axes.index("c")]) if "c" in self.axes else 1
        if chosen is None:
            return list(range(count))
        found = []
        for name in (part.strip() for part in chosen):
            if name in self.channels:
                found.append(self.channels.index(name))
            elif name.isdecimal() and int(name) < count:
                found.append(int(name))
            else:
                names = f" ({', '.join(self.channels)})" if self.channels else ""
                raise InputError(
                    f"{self.name} has no channel {name!r}; it has 0 to {count - 1}{names}."
                )
        return found


def stack_of(data: Any, *, axes: Sequence[str] | None = None, name: str = "the image") -> Stack:
    """Take an array, or a list of them from fine to coarse, as a stack.

    Without names the last two axes are rows and columns, or the two before three or four colours.

    Raises
    ------
    InputError
        If there are fewer than two axes, or the names do not fit.
    """
    levels = tuple(data) if isinstance(data, list | tuple) else (data,)
    shape = levels[0].shape
    if axes is None:
        if len(shape) < 2:
            raise InputError(f"{name} holds an array of shape {tuple(shape)}; that is no image.")
        colours = len(shape) > 2 and shape[-1] in (3, 4) and min(shape[-3:-1]) > 4
        last = ("y", "x", "s") if colours else ("y", "x")
        rest = len(shape) - len(last)
        usual = ("t", "z")[-rest:] if 0 < rest <= 2 else tuple(f"axis{i}" for i in range(rest))
        axes = (*usual, *last) if rest else last
    if len(axes) != len(shape) or not {"y", "x"} <= set(axes) or "s" in tuple(axes)[:-1]:
        raise InputError(
            f"{name} has shape {tuple(shape)}, and axes {tuple(axes)} do not fit it: name each "
            "one, y and x among them, colours (s) last."
        )
    return Stack(levels=levels, axes=tuple(axes), name=name)
