"""Masks to polygons along the edges of their pixels, and polygons to masks.

Coordinates are (x, y) with (0, 0) at the outer corner of the first pixel, so pixel (row 0, column
0) is the square from 0 to 1. A pixel belongs to a polygon if its centre does: filling the outline
of a mask gives back the mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ...base.regions import Region
from .annotation import place, solid

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

FloatArray = npt.NDArray[np.float64]
_MOST_CROP: Final = 500_000_000


def outline(region: Region) -> BaseGeometry:
    """Outline of a region: a Polygon or MultiPolygon, valid, with its holes.

    Parts that touch at a corner alone are parts of their own.
    """
    import shapely

    mask = np.pad(solid(region), 1)
    across, down = mask[1:] != mask[:-1], mask[:, 1:] != mask[:, :-1]
    # (rows + 1, columns + 1) corners; edges to their right and below them.
    right, below = across[:, 1:], down[1:, :]
    corner = (across[:, 1:] | across[:, :-1]) & (down[1:, :] | down[:-1, :])
    right, below = right[:, :-1], below[:-1, :]
    # Lines from corner to corner; np.nonzero keeps the order, so starts and ends pair up.
    y, start = np.nonzero(right & corner[:, :-1])
    end = np.nonzero(right & corner[:, 1:])[1] + 1
    level = np.stack([np.stack([start, y], 1), np.stack([end, y], 1)], 1)
    x, start = np.nonzero((below & corner[:-1, :]).T)
    end = np.nonzero((below & corner[1:, :]).T)[1] + 1
    upright = np.stack([np.stack([x, start], 1), np.stack([x, end], 1)], 1)
    lines: Any = shapely.linestrings(np.concatenate([level, upright]).astype(np.float64))
    faces = shapely.get_parts(shapely.polygonize(lines))
    # Holes are faces too.
    inside = shapely.get_coordinates(shapely.point_on_surface(faces)).astype(np.intp)
    faces = faces[mask[inside[:, 1] + 1, inside[:, 0] + 1]]
    y0, x0 = region.bbox[:2]
    found: Any = faces[0] if len(faces) == 1 else shapely.multipolygons(faces)
    moved: BaseGeometry = shapely.transform(found, lambda points: points + np.array([x0, y0]))
    return moved


def polygons_of(geometry: Any) -> list[Any]:
    """Polygons of any geometry; points and lines are left out."""
    import shapely

    parts = [geometry]
    while any(part.geom_type not in ("Polygon", "Point", "LineString") for part in parts):
        parts = list(shapely.get_parts(parts))
        parts = [p for p in parts if p.geom_type != "LinearRing"]
    return [part for part in parts if part.geom_type == "Polygon" and not part.is_empty]


def repaired(polygons: list[Any]) -> tuple[list[Any], str]:
    """Give valid polygons that cover what these do, and what was wrong; "" if nothing was."""
    import shapely

    whole: Any = polygons[0] if len(polygons) == 1 else shapely.multipolygons(polygons)
    if shapely.is_valid(whole):
        return polygons, ""
    reason = str(shapely.is_valid_reason(whole)).split("[")[0].strip().lower()
    return polygons_of(shapely.make_valid(whole)), reason


def beyond(polygons: list[Any], shape: tuple[int, int]) -> bool:
    """Whether polygons reach out of a plane."""
    slack = 1e-3  # world coordinates are rounded
    for polygon in polygons:
        x0, y0, x1, y1 = polygon.bounds
        if min(x0, y0) < -slack or x1 > shape[1] + slack or y1 > shape[0] + slack:
            return True
    return False


def region_of(region_id: int, polygons: Iterable[Any], shape: tuple[int, int]) -> Region | None:
    """Pixels whose centres lie in polygons; None if these miss the plane.

    Something too small for any centre becomes the pixel that it lies in.

    Raises
    ------
    ValueError
        If it is too large to be kept.
    """
    import shapely

    polygons = list(polygons)
    rings: list[FloatArray] = []
    for polygon in polygons:
        rings += [np.asarray(ring.coords)[:, :2] for ring in (polygon.exterior, *polygon.interiors)]
    filled = fill(rings, shape)
    found = None if filled is None else place(region_id, *filled, shape)
    if found is None and polygons:
        x, y = shapely.get_coordinates(shapely.point_on_surface(polygons[0]))[0]
        found = place(region_id, int(y // 1), int(x // 1), np.ones((1, 1), bool), shape)
    return found


def fill(
    rings: list[FloatArray], shape: tuple[int, int]
) -> tuple[int, int, npt.NDArray[np.bool_]] | None:
    """Fill closed rings (n, 2) of (x, y): pixels that an odd number of them goes around.

    Returns row and column of the mask's corner, and the mask.
    """
    points = np.concatenate(rings)
    low = np.clip(np.floor(points.min(axis=0)), 0, shape[::-1]).astype(int)
    high = np.clip(np.ceil(points.max(axis=0)), 0, shape[::-1]).astype(int)
    (x0, y0), (x1, y1) = low.tolist(), high.tolist()
    if x0 >= x1 or y0 >= y1:
        return None
    if (x1 - x0) * (y1 - y0) > _MOST_CROP:
        raise ValueError(f"its box of {y1 - y0} x {x1 - x0} px is too large to be kept")
    a = np.concatenate([ring[:-1] for ring in rings])
    b = np.concatenate([ring[1:] for ring in rings])
    turned = (a[:, 1] > b[:, 1])[:, None]
    a, b = np.where(turned, b, a), np.where(turned, a, b)
    # Rows whose centre line an edge crosses; its upper end counts, its lower one does not.
    first = np.clip(np.ceil(a[:, 1] - 0.5), y0, y1).astype(np.int64)
    counts = np.clip(np.ceil(b[:, 1] - 0.5), y0, y1).astype(np.int64) - first
    edge = np.repeat(np.arange(len(a)), counts)
    row = np.arange(len(edge)) - np.repeat(np.cumsum(counts) - counts, counts) + first[edge]
    part = (row + 0.5 - a[edge, 1]) / (b[edge, 1] - a[edge, 1])
    cross = a[edge, 0] + part * (b[edge, 0] - a[edge, 0])
    column = np.clip(np.ceil(cross - 0.5), x0, x1).astype(np.int64)
    width = x1 - x0 + 1
    flips = np.zeros((y1 - y0) * width, np.uint8)
    np.bitwise_xor.at(flips, (row - y0) * width + column - x0, 1)
    odd = np.bitwise_xor.accumulate(flips.reshape(y1 - y0, width)[:, :-1], axis=1)
    return y0, x0, odd.astype(bool)
