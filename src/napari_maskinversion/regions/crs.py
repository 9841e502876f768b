"""Which coordinates a GeoJSON file has, and their way to pixels.

In pixels, (0, 0) is the outer corner of the first one and y goes down. World coordinates are (x, y)
in a reference system, which for longitude and latitude is that order, whatever its definition says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.units import Georeference
from .affine import Affine2D

Bounds = tuple[float, float, float, float]  # x0, y0, x1, y1
_DEGREES: Final = (-180, -90, 360, 90)  # some files count longitude from 0 to 360
_LONGITUDE_LATITUDE: Final = "urn:ogc:def:crs:OGC:1.3:CRS84"
_RFC: Final = "longitude and latitude, as RFC 7946 says"
# PROJ ended the process where a worker of the panel used it after another thread.
PROJ_THREAD: Final = ThreadPoolExecutor(1)
_IMAGE: Final = "those of the image's CRS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinates:
    """What the coordinates of a file are."""

    name: str = "pixels"
    geo: Georeference | None = None  # The image's, unless they are pixels
    # Takes (n, 2) to the reference system of the image; None if they are in it
    to_image: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None = None
    upwards: bool = False  # Pixels with y upwards from the top of the image

    def to_pixels(self, shape: Any) -> Any:
        """Transform a geometry to (x, y) in pixels; infinite where that is not defined."""
        import shapely
        from shapely.affinity import affine_transform

        if self.geo is None:
            if self.upwards:
                return affine_transform(shape, (1, 0, 0, -1, 0, 0))
            return shape
        if self.to_image is not None:
            shape = shapely.transform(shape, self.to_image)
        return to_pixels(shape, self.geo)


def find_coordinates(
    path: Path,
    *,
    crs: Any,
    said: str,
    of_qupath: bool,
    bounds: Callable[[], Sequence[Bounds]],
    geo: Georeference | None,
    shape: tuple[int, int] | None,
    without: str,
    notes: list[str],
) -> Coordinates:
    """Return the coordinates of a file; a note says what was taken where it does not say itself.

    Parameters stand for the member "crs", for what else tells of pixels or the world (``said``),
    for the boxes of all features, and for the image; ``without`` says why it has no georeference.
    Where the numbers do not tell, QuPath's are pixels.
    """
    if said == "pixel":
        if geo is not None:
            notes.append(f"{path}: its coordinates were read as pixels.")
        return Coordinates()
    name = _name_of(crs)
    if name or said == "world":
        if geo is None:
            raise InputError(
                f"{path} is in world coordinates ({name or 'system unknown'}) and {without}; use "
                "GeoJSON in pixels, or the GeoTIFF it belongs to."
            )
        return _of_world(path, name, geo)
    if crs:
        unnamed = f"names a CRS that is not understood ({crs})"
    else:
        unnamed = "names no CRS"
    boxes = np.array([*bounds()], float).reshape(-1, 4)
    degrees = bool(len(boxes)) and _within(boxes, _DEGREES)
    tiny = bool(len(boxes)) and np.median((boxes[:, 2:] - boxes[:, :2]).max(1)) < 1  # of a pixel
    if geo is None:
        if degrees and tiny:
            x0, y0 = boxes[0, :2]
            corner = f"{x0:g}, {y0:g}"
            raise InputError(
                f"{path} {unnamed} and looks like longitude and latitude ({corner}), and "
                f"{without}; use the GeoTIFF it belongs to, or GeoJSON in pixels."
            )
        if crs or not of_qupath:
            reason = f"it {unnamed}, and {without}"
            notes.append(f"{path}: its coordinates were read as pixels, since {reason}.")
        if len(boxes) and boxes[:, 3].max() <= 0:
            notes.append(f"{path}: y is below 0, and was read as QGIS counts it: up from the top.")
            return Coordinates(upwards=True)
        return Coordinates()
    systems = [Coordinates(name=_IMAGE, geo=geo)]
    if degrees:
        world = _of_world(path, _LONGITUDE_LATITUDE, geo, called=_RFC)
        systems.insert(0 if geo.epsg is not None else 1, world)
    # Where nothing lies on the image, the first or, for degrees, RFC 7946 is right.
    if of_qupath and not tiny:
        fallback = Coordinates()
    else:
        fallback = systems[-1 if geo.epsg is None else 0]
    if tiny:
        pixels = []
    else:
        pixels = [Coordinates()]
    if of_qupath:
        order = [*pixels, *systems]
    else:
        order = [*systems, *pixels]
    shares = [_share(coordinates, boxes, shape) for coordinates in order]
    if any(shares):
        taken = order[int(np.argmax(shares))]
    else:
        taken = fallback
    notes.append(
        f"{path} {unnamed}; its coordinates were read as {taken.name}; if they are others, name "
        'their CRS in its member "crs".'
    )
    return taken


def _within(boxes: npt.NDArray[Any], place: Sequence[float]) -> bool:
    """Return whether most boxes lie in a place."""
    within = (boxes[:, :2] >= place[:2]).all(1) & (boxes[:, 2:] <= place[2:]).all(1)
    return bool(within.mean() > 0.5)


def _share(
    coordinates: Coordinates, boxes: npt.NDArray[Any], shape: tuple[int, int] | None
) -> float:
    """Return how many of the boxes lie on the image: of each the share of its area."""
    import shapely

    places = shapely.bounds(coordinates.to_pixels(shapely.box(*boxes.T)))
    places = places[np.isfinite(places).all(1)]
    height, width = shape or (np.inf, np.inf)
    sides = places[:, 2:] - places[:, :2]
    on = np.clip(places[:, 2:], 0, (width, height)) - np.clip(places[:, :2], 0, (width, height))
    return float((on / np.maximum(sides, np.finfo(float).tiny)).prod(1).sum())


def _name_of(crs: Any) -> str:
    """Return the name of a reference system: given by name, by EPSG code, or in a link; or ""."""
    if type(crs) is int:
        return f"EPSG:{crs}"
    about = None
    if isinstance(crs, dict):
        about = crs.get("properties")
    if not isinstance(about, dict):
        about = {"name": crs if isinstance(crs, str) else ""}
    link = re.search(r"epsg/(?:.*/)?(\d+)", str(about.get("href")), re.IGNORECASE)
    if link:
        code = link[1]
    else:
        code = about.get("code")
    return str(about.get("name") or (f"EPSG:{code}" if code else "")).strip()


def _of_world(path: Path, name: str, geo: Georeference, called: str = "") -> Coordinates:
    """Return coordinates in a reference system, by its name; "" is the image's."""
    if not name:
        return Coordinates(name=_IMAGE, geo=geo)
    if geo.epsg is None:
        return Coordinates(name=f"{_IMAGE}, which has no EPSG code", geo=geo)
    try:
        change = PROJ_THREAD.submit(_transformer, name, geo.epsg).result()
    except ValueError as error:
        raise InputError(
            f"{path} is in {called or name} and the image in EPSG:{geo.epsg}, and there is no way "
            f"between them ({error}); transform one of them first (for example with ogr2ogr)."
        ) from None

    def to_image(points: npt.NDArray[Any]) -> npt.NDArray[Any]:
        moved = PROJ_THREAD.submit(change.transform, points[:, 0], points[:, 1]).result()
        return np.stack(moved, 1)

    return Coordinates(name=called or name, geo=geo, to_image=to_image)


def _transformer(name: str, epsg: int) -> Any:
    """Return what changes coordinates from a reference system to that of an image."""
    import pyproj

    try:
        return pyproj.Transformer.from_crs(name, f"EPSG:{epsg}", always_xy=True)
    except pyproj.exceptions.ProjError as error:
        raise ValueError(str(error).split(": (")[0]) from None


def to_world(shape: Any, geo: Georeference) -> Any:
    """Transform a geometry from (x, y) in pixels, at pixel edges, to world coordinates."""
    from shapely.affinity import affine_transform

    a, b, c, d, e, f = geo.transform
    return affine_transform(shape, (a, b, d, e, c, f))


def to_pixels(shape: Any, geo: Georeference) -> Any:
    """Transform a geometry from world coordinates to (x, y) in pixels, at pixel edges."""
    import shapely

    a, b, c, d, e, f = geo.transform
    inverse = Affine2D(np.array([[a, b], [d, e]]), np.array([c, f])).inverse

    def change(points: npt.NDArray[Any]) -> npt.NDArray[Any]:
        finite = np.isfinite(points).all(1, keepdims=True)
        return np.where(finite, inverse(np.where(finite, points, 0)), np.inf)  # NaN opens rings

    return shapely.transform(shape, change)


def crs_name(epsg: int) -> str:
    """Return the name of a reference system in GeoJSON."""
    # EPSG:4326 is latitude first; GeoJSON is longitude first.
    if epsg == 4326:
        return _LONGITUDE_LATITUDE
    return f"urn:ogc:def:crs:EPSG::{epsg}"
