"""Open TIFF files: tiled, pyramidal, OME, ImageJ, GeoTIFF."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np

from ..base.errors import InputError
from ..base.units import Georeference, Units, short_unit
from .decoding import SLIDES, TIFF, reading_errors
from .jpeg import check_tiles
from .lazy_plane import Inverted, PaletteColours, PickedSamples, SamplesLast
from .orientation import turned
from .stack import Stack, check_series
from .tiff_pages import (
    PALETTE,
    check_pages,
    colour_samples,
    has_fourth_band,
    is_inverted,
    is_turned,
    open_tiff_file,
    palette_of,
)

# Coarser resolutions are those of printers, not of microscopes.
_COARSEST_UM: Final = 20.0
_UNCHECKED: Final = {
    **dict.fromkeys((33003, 33004, 33005, 34712), "JPEG 2000"),
    **dict.fromkeys((34927, 50001), "WebP"),
}
_METRES: Final = {9001: "m", 9002: "ft", 9003: "ft"}
PROGRAM: Final = "napari-maskinversion"
"""The software that TIFF files of results name."""


def is_tiff(path: Path) -> bool:
    """Return whether a path is a TIFF file."""
    return path.suffix.lower() in {*TIFF, *SLIDES} and path.is_file()


def holds_results(path: Path) -> bool:
    """Return whether a file is a TIFF that this program wrote."""
    if not is_tiff(path):
        return False
    try:
        with reading_errors(path, "mask"), open_tiff_file(path) as file:
            return str(file.pages.first.software) == PROGRAM
    except InputError:
        return False


def open_tiff(path: Path, number: int = 0, *, colours: bool = True) -> Stack:
    """Open an image of a TIFF file with its pyramid, axes, channels and pixel size.

    ``colours`` tells whether values become what viewers show: numbers of colours in a palette
    become these colours, values of which 0 is white are inverted, grey with opacity becomes
    colours with opacity, and a fourth band that is no opacity is left out.
    """
    import tifffile
    import zarr

    file = open_tiff_file(path)
    names = _series_names(file)
    check_series(path, number, names)
    series = file.series[number]
    check_pages(series, path)
    axes = tuple({"i": "page", "q": "page"}.get(a, a) for a in series.axes.lower())
    if len(set(axes)) < len(axes):
        axes = tuple(f"{a}{i}" if axes.count(a) > 1 else a for i, a in enumerate(axes))
    if series.dataoffset is not None and len(series.levels) == 1:
        levels: tuple[Any, ...] = (tifffile.memmap(path, series=number, mode="r"),)
        if levels[0].shape != tuple(series.shape):
            levels = (np.reshape(levels[0], series.shape),)
    else:
        check_tiles(level.keyframe for level in series.levels)
        stores = [series.aszarr(level=number) for number in range(len(series.levels))]
        levels = tuple(zarr.open(store, mode="r") for store in stores)
    if "s" in axes[:-1]:  # colours stored plane by plane
        place = axes.index("s")
        levels = tuple(SamplesLast(level, place) for level in levels)
        axes = (*axes[:place], *axes[place + 1 :], "s")
    if "s" in axes:
        count = levels[0].shape[-1]
        samples = colour_samples(series.keyframe, count)
        if not samples and (colours or count != 4):
            axes = (*axes[:-1], "c")
        elif colours and samples != tuple(range(count)):
            levels = tuple(_picked(level, samples) for level in levels)
    palette = palette_of(series.keyframe) if colours and "s" not in axes else None
    if palette is not None:
        levels = tuple(PaletteColours(level, palette) for level in levels)
        axes = (*axes, "s")
    if colours and is_inverted(series.keyframe):
        levels = tuple(map(Inverted, levels))
    channels, units = _about(file, series, number)
    return Stack(
        levels=levels,
        axes=axes,
        name=str(path),
        channels=channels,
        units=units,
        on_close=file.close,
        images=names,
        series=number,
        notes=_notes(series.keyframe, path, colours=colours),
    )


def _picked(level: Any, samples: tuple[int, ...]) -> Any:
    if isinstance(level, np.ndarray) and samples == (0, 1, 2):
        return level[..., :3]  # a view, which needs no memory however large the file is
    return PickedSamples(level, samples)


def _notes(page: Any, path: Path, *, colours: bool) -> tuple[str, ...]:
    notes = []
    codec = _UNCHECKED.get(int(page.compression))
    if codec is not None:
        notes.append(
            f"{path} stores its pixels as {codec}, which has no checksum: damage may not be "
            "noticed."
        )
    if colours and page.photometric == PALETTE and palette_of(page) is None:
        notes.append(f"{path} has a table of colours by ImageJ; the model sees its intensities.")
    if colours and is_inverted(page):
        notes.append(f"{path} has 0 for white; the model sees it as viewers show it.")
    if colours and has_fourth_band(page):
        notes.append(
            f"{path} has a fourth band that is no opacity (perhaps near infrared); it is not used: "
            "the model sees red, green and blue."
        )
    if is_turned(page):
        notes.append(turned(path))
    return tuple(notes)


def _series_names(file: Any) -> tuple[str, ...]:
    """Return a name of each image of a file, from OME-XML or its size."""
    names = [element.get("Name") or "" for element in _ome_images(file)]
    if len(names) != len(file.series):
        names = [
            str(one.name) if str(one.name) not in ("", "Generic", "Uniform") else ""
            for one in file.series
        ]
    sizes = [" x ".join(map(str, one.shape)) for one in file.series]
    return tuple(name or size for name, size in zip(names, sizes, strict=True))


def _ome_images(file: Any) -> list[ElementTree.Element]:
    if not (file.is_ome and file.ome_metadata):
        return []
    try:
        return ElementTree.fromstring(file.ome_metadata).findall("{*}Image")
    except ElementTree.ParseError:
        return []  # the pixels are readable anyway


def _about(file: Any, series: Any, number: int) -> tuple[tuple[str, ...], Units | None]:
    """Read channel names and pixel size, if the file has them."""
    page = series.keyframe
    if file.geotiff_metadata:
        return (), _geo_units(file.geotiff_metadata)
    images = _ome_images(file)
    if images:
        pixels = images[number if len(images) == len(file.series) else 0].find("{*}Pixels")
        if pixels is not None:
            names = tuple(
                item.get("Name") or str(i) for i, item in enumerate(pixels.findall("{*}Channel"))
            )
            return names, _ome_units(pixels)
    resolution = [page.tags.get(name) for name in ("YResolution", "XResolution")]
    if None in resolution:
        return (), None
    try:
        per_pixel = [below / above for above, below in (tag.value for tag in resolution)]
    except (TypeError, ValueError, ZeroDivisionError):
        return (), None  # the pixels are readable anyway
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
    """Read the pixel size of an OME image; None if it is missing or makes no sense."""
    units = [pixels.get(f"PhysicalSize{axis}Unit") or "µm" for axis in "YX"]
    try:
        size = [float(pixels.get(f"PhysicalSize{axis}") or 0) for axis in "YX"]
        return Units.of_layer(size, units)
    except (ValueError, InputError):
        return None  # the pixels are readable anyway


def _geo_units(tags: Mapping[str, Any]) -> Units | None:
    """Read units and georeference of a GeoTIFF (OGC 19-008, section 7.3)."""
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
    if int(tags.get("GTRasterTypeGeoKey", 1)) == 2:  # tied to the centre of a pixel
        values[2] -= 0.5 * (values[0] + values[1])
        values[5] -= 0.5 * (values[3] + values[4])
    a, b, c, d, e, f = (float(value) for value in values)
    code = tags.get("ProjectedCSTypeGeoKey") or tags.get("GeographicTypeGeoKey")
    # 32767: user-defined system.
    epsg = None if code is None or int(code) == 32767 else int(code)
    geo = Georeference(transform=(a, b, c, d, e, f), epsg=epsg)
    if int(tags.get("GTModelTypeGeoKey", 0)) != 1:
        return Units(geo=geo)  # degrees have no area
    unit = _METRES.get(int(tags.get("ProjLinearUnitsGeoKey", 9001)))
    if unit is None:
        return Units(geo=geo)
    return Units(pixel=(float(np.hypot(b, e)), float(np.hypot(a, d))), unit=unit, geo=geo)
