"""Open TIFF files: tiled, pyramidal, OME, ImageJ, GeoTIFF."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np

from ..base.errors import InputError
from ..base.units import Georeference, Units, short_unit
from .lazy_plane import MaskedArray, View, is_nodata
from .stack import Stack, check_series

TIFF: Final = {".tif", ".tiff"}
SLIDES: Final = {".svs", ".ndpi", ".scn", ".bif", ".btf", ".tf8", ".lsm", ".stk", ".qptiff"}
"""Endings of TIFF files of microscopes and scanners."""
TURNED: Final = range(2, 9)
"""Values of the tag Orientation of an image that is not upright; 0 and others mean nothing."""
PROGRAM: Final = "napari-maskinversion"
"""The software that TIFF files of results name."""

_NO_TIFF: Final = {"PNG": b"\x89PNG", "JPG": b"\xff\xd8\xff"}  # what files of that name can be
# Coarser resolutions are those of printers, not of microscopes.
_COARSEST_UM: Final = 20.0
_MOST_PLANES: Final = 2_000_000  # tifffile makes a list of them
_METRES: Final = {9001: "m", 9002: "ft", 9003: "ft"}
# PhotometricInterpretation: what the numbers of a page mean.
_WHITE_IS_ZERO, _BLACK_IS_ZERO, _RGB, _PALETTE = range(4)
_CMYK = 5
_YCBCR = 6
_UNREAD_COLOURS: Final = {_CMYK: "CMYK", _YCBCR: "YCbCr", 8: "L*a*b*", 9: "L*a*b*", 10: "L*a*b*"}
# Codecs that keep numbers as they are; those of pictures return RGB.
_PLAIN_CODECS: Final = {1, 5, 8, 32773, 32946, 34925, 50000}
# ExtraSamples: colours that have been multiplied with their opacity, and colours that have not.
_MULTIPLIED = 1
_OPACITY = 2
_NODATA: Final = 42113  # GDAL's tag, a number as text
# It is read here, also where it is -9999 of whole numbers above 0, which tifffile warns of.
logging.getLogger("tifffile").addFilter(lambda record: "GDAL_NODATA" not in record.getMessage())
_BESIDE: Final = ".msk"  # of GDAL's masks in a file of their own
FOURTH_BAND: Final = (
    "has a fourth band that is no opacity (perhaps near infrared); it is not used: the model sees "
    "red, green and blue."
)
_GLANCE: Final = 1024  # pixels of a side


def is_tiff(path: Path) -> bool:
    """Return whether a path is a TIFF file."""
    return path.suffix.lower() in {*TIFF, *SLIDES} and path.is_file()


def holds_results(path: Path) -> bool:
    """Return whether a file is a TIFF that this program wrote."""
    import tifffile

    if not is_tiff(path):
        return False
    try:
        with tifffile.TiffFile(path) as file:
            return str(file.pages.first.software) == PROGRAM
    except Exception:  # tifffile raises nearly anything on damaged files
        return False


def read_tiff(path: Path, check_size: Callable[[int], None]) -> Any:
    """Read the numbers that the first image of a TIFF file stores, its samples where they are.

    ``check_size`` raises for more bytes than can be read.
    """
    with _opened(path) as file:
        series = _series(file)[0]
        check_pages(series, path)
        check_size(series.nbytes)
        return without_nodata(series.asarray(), nodata_of(series.keyframe))


def _opened(path: Path) -> Any:
    """Open a TIFF file whose OME-XML declares no more planes than a list can hold."""
    import tifffile

    with path.open("rb") as head:
        begin = head.read(4)
    for name, sign in _NO_TIFF.items():
        if begin.startswith(sign):
            raise InputError(f"{path} is a {name} file; rename it to {path.stem}.{name.lower()}.")
    file = tifffile.TiffFile(path)
    xml = file.ome_metadata or ""
    sizes = []
    for pixels in re.findall("<[^>]*Pixels [^>]*", xml):
        sizes.append(re.findall(r"""Size[ZCT]=["'](\d+)""", pixels))
    counts = re.findall(r"""(?:PlaneCount|NumPlanes|IFD)=["'](\d+)""", xml)
    if max((0, *(prod(map(int, size)) for size in sizes), *map(int, counts))) > _MOST_PLANES:
        file.close()
        raise InputError(
            f"{path} declares more than {_MOST_PLANES:,} planes in its OME-XML; save it again."
        )
    return file


def _series(file: Any) -> list[Any]:
    """Return the images of a file; masks of GDAL (in COGs, too) are about others."""
    return [image for image in file.series if not image.keyframe.is_mask] or list(file.series)


def nodata_of(page: Any) -> float | None:
    """Return the number that stands for no value; None without one."""
    try:
        return float(str(page.tags.valueof(_NODATA)).strip("\0 "))
    except ValueError:
        return None


def without_nodata(labels: Any, nodata: float | None) -> Any:
    """Return labels with 0 for no data."""
    if not nodata:  # 0 is no region anyway
        return labels
    nothing = is_nodata(labels, nodata)
    return np.where(nothing, labels.dtype.type(0), labels)


def open_tiff(path: Path, number: int = 0, *, colours: bool = True) -> Stack:
    """Open an image of a TIFF file with its pyramid, axes, channels and pixel size.

    ``colours`` tells whether values become what viewers show: grey with opacity becomes colours
    with opacity, and a fourth band that is no opacity is left out.
    """
    import tifffile
    import zarr

    file = _opened(path)
    every = _series(file)
    names = _series_names(file, every)
    check_series(path, number, names)
    series = every[number]
    check_pages(series, path)
    page = series.keyframe
    axes = tuple({"i": "page", "q": "page"}.get(a, a) for a in series.axes.lower())
    if len(set(axes)) < len(axes):
        axes = tuple(f"{a}{i}" if axes.count(a) > 1 else a for i, a in enumerate(axes))
    if series.dataoffset is not None and len(series.levels) == 1:
        mapped = tifffile.memmap(path, series=file.series.index(series), mode="r")
        levels: tuple[Any, ...] = (np.reshape(mapped, series.shape),)
    else:
        stores = [series.aszarr(level=number) for number in range(len(series.levels))]
        levels = tuple(zarr.open(store, mode="r") for store in stores)
    if "s" in axes[:-1]:  # colours stored plane by plane
        place = axes.index("s")
        levels = tuple(View(level, place) for level in levels)
        axes = (*axes[:place], *axes[place + 1 :], "s")
    fourth = _has_fourth_band(page)
    if "s" in axes:
        count = levels[0].shape[-1]
        samples = _colour_samples(page, count)
        if colours and samples == (0, 1, 2, 3) and len(axes) == 3 and varies(levels[-1]):
            samples = (0, 1, 2)
            fourth = True
        if not samples and (colours or count != 4):
            axes = (*axes[:-1], "c")
        elif colours and samples == (0, 1, 2) and isinstance(levels[0], np.ndarray):
            levels = tuple(level[..., :3] for level in levels)  # of a file of any size
        elif colours and samples != tuple(range(count)):
            levels = tuple(View(level, len(axes) - 1, samples) for level in levels)
    if colours and page.photometric == _PALETTE and not file.is_imagej:
        raise InputError(f"{path} stores its colours as a palette; save it as RGB.")
    channels, units = _about(file, series, number)
    beside = path.with_name(path.name + _BESIDE)
    masks = _masks(file)
    close: Callable[[], None] = file.close
    if not masks and beside.is_file():
        closed = ExitStack()
        closed.callback(file.close)
        masks = _masks(closed.enter_context(tifffile.TiffFile(beside)))
        close = closed.close
    if masks:
        levels = tuple(masked(level, axes, masks, labels=not colours) for level in levels)
    return Stack(
        levels=levels,
        axes=axes,
        name=str(path),
        channels=channels,
        units=units,
        on_close=close,
        images=names,
        series=number,
        notes=_notes(page, path, colours=colours, fourth=fourth),
        nodata=nodata_of(page),
    )


def _masks(file: Any) -> dict[tuple[int, ...], Any]:
    """Return GDAL's masks by size."""
    import zarr

    of_masks = file.filehandle.name.endswith(_BESIDE)
    every = [image for image in file.series if image.keyframe.is_mask or of_masks]
    masks = {}
    for image in every:
        for number, level in enumerate(image.levels):
            if level.ndim == 2:
                masks[level.shape] = zarr.open(image.aszarr(level=number), mode="r")
    return masks


@dataclass(frozen=True, slots=True)
class FileMask:
    """GDAL's mask of a size in a file, which is opened for each read: a layer has no end."""

    path: Path
    shape: tuple[int, ...]

    def __getitem__(self, key: Any) -> Any:
        with _opened(self.path) as file:
            return np.asarray(_masks(file)[self.shape][key])


def file_masks(path: Path) -> dict[tuple[int, ...], FileMask]:
    """Return GDAL's masks in a file or next to it, by size."""
    for place in (path, path.with_name(path.name + _BESIDE)):
        if place.is_file():
            with _opened(place) as file:
                if sizes := list(_masks(file)):
                    return {size: FileMask(place, size) for size in sizes}
    return {}


def masked(
    level: Any, axes: tuple[str, ...], masks: Mapping[tuple[int, ...], Any], *, labels: bool
) -> Any:
    """Return a level that has no value, or as labels no region, where its mask is 0."""
    places = axes.index("y"), axes.index("x")
    mask = masks.get(tuple(level.shape[place] for place in places))
    if mask is None:
        return level
    kind = np.dtype(level.dtype)
    if labels or kind.itemsize == 1 or (kind == np.uint16 and axes[-1] == "s"):
        return MaskedArray(level, mask, places, kind, 0)  # their range is fixed: black
    if kind.kind in "iu":
        kind = np.dtype(np.float32 if kind.itemsize == 2 else np.float64)
    return MaskedArray(level, mask, places, kind, np.nan)


def check_pages(series: Any, path: Path) -> None:
    """Refuse an image with missing planes, or a file that ends before its pixels.

    Also one whose colours would be taken for red, green and blue and are not.
    """
    colours = _unread_colours(series.keyframe)
    if colours:
        raise InputError(f"{path} stores its colours as {colours}; save it as RGB.")
    for level in series.levels:
        # Planes that follow one another may have no page of their own.
        is_whole = level.dataoffset is not None
        if is_whole:
            pages = [level.keyframe, level.pages[-1]]
        else:
            pages = list(level.pages)
        missing = []
        for number, page in enumerate(pages, 1):
            if page is None:
                missing.append(number)
        if missing:
            raise InputError(
                f"{path} could not be read as image: plane {missing[0]} of {len(pages)} is missing "
                f"({len(missing)} in all). Copy the files that hold them to the same folder, or "
                "save the planes that there are as another file."
            )
        for page in pages:
            ends = list(map(sum, zip(page.dataoffsets, page.databytecounts, strict=False)))
            parts = 1 if page.is_contiguous else prod(page.chunked)
            if len(ends) < parts or max(ends) > page.parent.filehandle.size:
                raise InputError(
                    f"{path} could not be read as image: it is cut off; copy it again."
                )


def _unread_colours(page: Any) -> str:
    kind = int(page.photometric)
    if kind == _CMYK and page.samplesperpixel != 4:  # channels of a microscope
        return ""
    if kind == _YCBCR and int(page.compression) not in _PLAIN_CODECS:
        return ""
    return _UNREAD_COLOURS.get(kind, "")


def _has_fourth_band(page: Any) -> bool:
    """Return whether red, green and blue have a fourth sample that is no opacity.

    ExtraSamples = 0 says so, as in aerial images with near infrared. Pillow, tifffile and others
    write 1 or 2 for RGBA; some programs leave the tag out, which is taken for opacity.
    """
    no_opacity = bool(page.extrasamples) and not {_MULTIPLIED, _OPACITY} & {*page.extrasamples}
    return int(page.photometric) == _RGB and page.samplesperpixel == 4 and no_opacity


def varies(level: Any) -> bool:
    """Return whether most values of the last sample lie between nothing and all, in the middle.

    GDAL calls the fourth band of any 8-bit image opacity, also near infrared.
    """
    tops = [max(0, side // 2 - _GLANCE // 2) for side in level.shape[:2]]
    rows, columns = (slice(top, top + _GLANCE) for top in tops)
    opacity = np.asarray(level[rows, columns])[..., -1]
    return bool(((opacity > 0) & (opacity < opacity.max())).mean() > 0.5)


def _colour_samples(page: Any, count: int) -> tuple[int, ...]:
    """Return which samples are red, green, blue and opacity; empty if they are channels.

    Opacity that colours have been multiplied with is left out: they are on black.
    """
    if count == page.samplesperpixel:
        kind = int(page.photometric)
        extra = page.extrasamples
        if _has_fourth_band(page) or (count == 4 and extra == (_MULTIPLIED,)):
            return 0, 1, 2
        if count == 2 and kind == _BLACK_IS_ZERO and extra == (_OPACITY,):
            return 0, 0, 0, 1
        if count == 2 and kind == _BLACK_IS_ZERO and extra == (_MULTIPLIED,):
            return 0, 0, 0
        if count == 4 and kind in (_WHITE_IS_ZERO, _BLACK_IS_ZERO) and _OPACITY not in extra:
            return ()
    if count in (3, 4):
        return tuple(range(count))
    return ()


def turned(path: Path) -> str:
    """Return a note about an image that some viewers turn."""
    return (
        f"{path} says that it is to be turned or mirrored (EXIF orientation); it is used as it is "
        "stored, as napari and scikit-image show it. Regions drawn in a viewer that turns it, such "
        "as labelme or a browser, lie elsewhere: save it upright first."
    )


def _notes(page: Any, path: Path, *, colours: bool, fourth: bool) -> tuple[str, ...]:
    notes = []
    if colours and page.photometric == _PALETTE:
        notes.append(f"{path} has a table of colours by ImageJ; the model sees its intensities.")
    if colours and page.photometric == _WHITE_IS_ZERO:
        notes.append(f"{path} has 0 for white; the model sees it as black: invert it first.")
    if colours and fourth:
        notes.append(f"{path} {FOURTH_BAND}")
    if page.tags.valueof("Orientation") in TURNED:
        notes.append(turned(path))
    return tuple(notes)


def _series_names(file: Any, every: list[Any]) -> tuple[str, ...]:
    """Return a name of each image of a file, from OME-XML or its size."""
    names = [element.get("Name") or "" for element in _ome_images(file)]
    if len(names) != len(every):
        names = []
        for image in every:
            names.append(
                str(image.name) if str(image.name) not in ("", "Generic", "Uniform") else ""
            )
    sizes = [" x ".join(map(str, image.shape)) for image in every]
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
        per_pixel = []
        for tag in resolution:
            pixels, length = tag.value
            per_pixel.append(length / pixels)
    except (TypeError, ValueError, ZeroDivisionError):
        return (), None  # the pixels are readable anyway
    if min(per_pixel) <= 0:
        return (), None
    unit = "µm"
    factor = 0.0
    if file.imagej_metadata:
        unit = short_unit(file.imagej_metadata.get("unit", ""))
        factor = 1.0
    else:
        factor = {2: 25400.0, 3: 10000.0}.get(int(page.tags.valueof("ResolutionUnit", 1)), 0.0)
        if factor * max(per_pixel) > _COARSEST_UM:
            return (), None
    if not unit or not factor:
        return (), None
    return (), Units(pixel=(factor * per_pixel[0], factor * per_pixel[1]), unit=unit)


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
    matrix = tags.get("ModelTransformation")
    scale = tags.get("ModelPixelScale")
    tie = tags.get("ModelTiepoint")
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
    if code is None or int(code) == 32767:
        epsg = None
    else:
        epsg = int(code)
    geo = Georeference(transform=(a, b, c, d, e, f), epsg=epsg)
    if int(tags.get("GTModelTypeGeoKey", 0)) != 1:
        return Units(geo=geo)  # degrees have no area
    unit = _METRES.get(int(tags.get("ProjLinearUnitsGeoKey", 9001)))
    if unit is None:
        return Units(geo=geo)
    return Units(pixel=(float(np.hypot(b, e)), float(np.hypot(a, d))), unit=unit, geo=geo)
