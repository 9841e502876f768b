"""Coordinate reference systems: pixels to world coordinates and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ...base.errors import InputError
from ...base.units import Georeference

_LONGITUDE_LATITUDE: Final = "urn:ogc:def:crs:OGC:1.3:CRS84"


def find_georeference(
    head: Mapping[str, Any], ours: Mapping[str, Any], path: Path, geo: Georeference | None
) -> Georeference | None:
    """Return the georeference that maps a file's coordinates to pixels; None if they are pixels."""
    crs = head.get("crs")
    if ours.get("coordinates") == "pixel" or (not crs and ours.get("coordinates") != "world"):
        return None
    name = ""
    if isinstance(crs, dict) and isinstance(crs.get("properties"), dict):
        name = str(crs["properties"].get("name", ""))
    match = re.search(r"EPSG:*[\d.]*:(\d+)$", name, re.IGNORECASE)
    epsg = 4326 if name.endswith("CRS84") else int(match.group(1)) if match else None
    if geo is None:
        raise InputError(
            f"{path} is in world coordinates ({name or 'system unknown'}) and the image has no "
            "georeference; use GeoJSON in pixels, or the GeoTIFF it belongs to."
        )
    if epsg != geo.epsg and None not in (epsg, geo.epsg):
        raise InputError(
            f"{path} is in EPSG:{epsg} and the image in EPSG:{geo.epsg}; transform one of them "
            "first (for example with ogr2ogr)."
        )
    return geo


def to_world(shape: Any, geo: Georeference) -> Any:
    """Transform a geometry from (x, y) in pixels, at pixel edges, to world coordinates."""
    from shapely.affinity import affine_transform

    a, b, c, d, e, f = geo.transform
    return affine_transform(shape, (a, b, d, e, c, f))


def to_pixels(shape: Any, geo: Georeference) -> Any:
    """Transform a geometry from world coordinates to (x, y) in pixels, at pixel edges."""
    from shapely.affinity import affine_transform, translate

    a, b, c, d, e, f = geo.transform
    size = a * e - b * d
    inverse = (e / size, -b / size, -d / size, a / size, 0, 0)
    return affine_transform(translate(shape, -c, -f), inverse)


def crs_name(epsg: int) -> str:
    """Return the name of a reference system in GeoJSON."""
    # EPSG:4326 is latitude first; GeoJSON is longitude first.
    return _LONGITUDE_LATITUDE if epsg == 4326 else f"urn:ogc:def:crs:EPSG::{epsg}"
