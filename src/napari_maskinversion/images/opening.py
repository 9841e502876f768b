"""Image files of any number of dimensions, opened and not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np

from ..core.errors import InputError
from ..units import Georeference, Units, short_unit
from .channels import Channel, ChannelPlane, ColourPlane, default_colours
from .decoding import TIFF, decode
from .lazy import LazyPlane
from .source import PlaneSource

# A resolution coarser than this is a printer's, not a microscope's.
_COARSEST_UM: Final = 20.0
_METRES: Final = {9001: "m", 9002: "ft", 9003: "ft"}


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
    """

    levels: tuple[Any, ...]
    axes: tuple[str, ...]
    name: str = "the image"
    channels: tuple[str, ...] = field(default=())
    units: Units | None = None

    @property
    def plane_axes(self) -> dict[str, int]:
        """Names and sizes of the axes that planes are counted along."""
        sizes = zip(self.axes, self.levels[0].shape, strict=True)
        return {name: int(size) for name, size in sizes if name not in ("y", "x", "c", "s")}

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
            For an axis or a place that is not there.
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


def open_image(path: str | Path) -> Stack:
    """Open an image file: TIFF (also tiled, pyramidal, OME, ImageJ, GeoTIFF), .npy, PNG, JPEG.

    Raises
    ------
    InputError
        If it is missing or cannot be read; names it.
    """
    place = Path(path)
    if place.suffix.lower() in TIFF and place.is_file():
        try:
            return _open_tiff(place)
        except InputError:
            raise
        except Exception as error:
            reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
            raise InputError(f"{path} could not be read as image: {reason[0]}") from error
    return stack_of(decode(place, "image", colours=True), name=str(path))


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


def _open_tiff(path: Path) -> Stack:
    import tifffile
    import zarr

    file = tifffile.TiffFile(path)
    series = file.series[0]
    axes = tuple({"i": "page", "q": "page"}.get(a, a) for a in series.axes.lower())
    if len(set(axes)) < len(axes):
        axes = tuple(f"{a}{i}" if axes.count(a) > 1 else a for i, a in enumerate(axes))
    if series.dataoffset is not None and len(series.levels) == 1:
        levels: tuple[Any, ...] = (tifffile.memmap(path, mode="r"),)
        if levels[0].shape != tuple(series.shape):
            levels = (np.reshape(levels[0], series.shape),)
    else:
        stores = [series.aszarr(level=number) for number in range(len(series.levels))]
        levels = tuple(zarr.open(store, mode="r") for store in stores)
    if "s" in axes[:-1]:  # colours stored plane by plane
        place = axes.index("s")
        levels = tuple(np.moveaxis(np.asarray(level[:]), place, -1) for level in levels)
        axes = (*axes[:place], *axes[place + 1 :], "s")
    if "s" in axes and levels[0].shape[axes.index("s")] not in (3, 4):
        axes = tuple("c" if a == "s" else a for a in axes)
    names, units = _about(file, series)
    return Stack(levels=levels, axes=axes, name=str(path), channels=names, units=units)


def _about(file: Any, series: Any) -> tuple[tuple[str, ...], Units | None]:
    """Names of channels, and the pixel size, as far as the file says."""
    page = series.keyframe
    if file.geotiff_metadata:
        return (), _geo_units(file.geotiff_metadata)
    if file.is_ome and file.ome_metadata:
        root = ElementTree.fromstring(file.ome_metadata)
        pixels = root.find(".//{*}Pixels")
        if pixels is not None:
            names = tuple(
                item.get("Name") or str(i) for i, item in enumerate(pixels.findall("{*}Channel"))
            )
            return names, _ome_units(pixels)
    resolution = [page.tags.get(name) for name in ("YResolution", "XResolution")]
    if None in resolution:
        return (), None
    per_pixel = [tag.value[1] / tag.value[0] if tag.value[0] else 0 for tag in resolution]
    if min(per_pixel) <= 0:
        return (), None
    if file.imagej_metadata:
        unit = short_unit(file.imagej_metadata.get("unit", ""))
        return (), Units(pixel=(per_pixel[0], per_pixel[1]), unit=unit) if unit else None
    factor = {2: 25400.0, 3: 10000.0}.get(int(page.tags.valueof("ResolutionUnit", 1)), 0.0)
    sizes = [factor * value for value in per_pixel]
    if factor and max(sizes) <= _COARSEST_UM:
        return (), Units(pixel=(sizes[0], sizes[1]), unit="µm")
    return (), None


def _ome_units(pixels: ElementTree.Element) -> Units | None:
    """Pixel size of an OME image; None where the file has none that makes sense."""
    units = [pixels.get(f"PhysicalSize{axis}Unit") or "µm" for axis in "YX"]
    try:
        size = [float(pixels.get(f"PhysicalSize{axis}") or 0) for axis in "YX"]
        return Units.of_layer(size, units)
    except (ValueError, InputError):
        return None  # the pixels are good all the same


def _geo_units(tags: Mapping[str, Any]) -> Units | None:
    """Units and georeference of a GeoTIFF (OGC 19-008, section 7.3)."""
    matrix, scale, tie = (
        tags.get(name) for name in ("ModelTransformation", "ModelPixelScale", "ModelTiepoint")
    )
    if matrix is not None:
        m = np.asarray(matrix, dtype=float).reshape(4, 4)
        values = [m[0, 0], m[0, 1], m[0, 3], m[1, 0], m[1, 1], m[1, 3]]
    elif scale is not None and tie is not None:
        i, j, _, x, y, _ = tie[:6]
        values = [scale[0], 0.0, x - i * scale[0], 0.0, -scale[1], y + j * scale[1]]
    else:
        return None
    if int(tags.get("GTRasterTypeGeoKey", 1)) == 2:  # the tie is to a pixel's centre
        values[2] -= 0.5 * (values[0] + values[1])
        values[5] -= 0.5 * (values[3] + values[4])
    a, b, c, d, e, f = (float(value) for value in values)
    code = tags.get("ProjectedCSTypeGeoKey") or tags.get("GeographicTypeGeoKey")
    # 32767 says that the file describes a system of its own.
    epsg = None if code is None or int(code) == 32767 else int(code)
    geo = Georeference(transform=(a, b, c, d, e, f), epsg=epsg)
    if int(tags.get("GTModelTypeGeoKey", 0)) != 1:
        return Units(geo=geo)  # degrees have no area
    unit = _METRES.get(int(tags.get("ProjLinearUnitsGeoKey", 9001)))
    if unit is None:
        return Units(geo=geo)
    return Units(pixel=(float(np.hypot(b, e)), float(np.hypot(a, d))), unit=unit, geo=geo)
