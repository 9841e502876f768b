"""Masks to polygons along pixel edges, and polygons to masks.

Coordinates are (x, y) with (0, 0) at the outer corner of the first pixel, so the pixel in row 0,
column 0 is the square from 0 to 1. A pixel belongs to a polygon if its centre does: filling the
outline of a mask returns the mask.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ...base.regions import Region
from .annotation import binary_mask, place_mask, united

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

FloatArray = npt.NDArray[np.float64]
_MAX_CROP: Final = 500_000_000  # pixels
_MAX_EDGES: Final = 50_000_000  # pixel rows crossed by edges, summed over a region's edges
_QUARTER: Final = 64  # edges of a quarter of an ellipse


def outline(region: Region) -> BaseGeometry:
    """Trace a region as a valid Polygon or MultiPolygon with holes.

    Parts that only touch at a corner are separate.
    """
    import shapely

    mask = np.pad(binary_mask(region), 1)
    across = mask[1:] != mask[:-1]
    down = mask[:, 1:] != mask[:, :-1]
    # (rows + 1, columns + 1) corners; edges to their right and below them.
    right = across[:, 1:]
    below = down[1:, :]
    corner = (across[:, 1:] | across[:, :-1]) & (down[1:, :] | down[:-1, :])
    right = right[:, :-1]
    below = below[:-1, :]
    # Lines from corner to corner; np.nonzero is ordered, so starts and ends pair up.
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
    shape: Any
    if len(faces) == 1:
        shape = faces[0]
    else:
        shape = shapely.multipolygons(faces)
    moved: BaseGeometry = shapely.transform(shape, lambda points: points + np.array([x0, y0]))
    return moved


def without_holes(polygons: Iterable[Any]) -> list[Any]:
    """Cut polygons along the left edges of their holes; the pieces cover the same pixels."""
    import shapely

    pieces = []
    pending = list(polygons)
    # Each cut takes one hole away; pieces with more holes wait for the next one.
    while pending:
        polygon = pending.pop()
        if not len(polygon.interiors):
            pieces.append(polygon)
            continue
        x0, y0, x1, y1 = polygon.bounds
        cut = polygon.interiors[0].bounds[0]
        for half in (shapely.box(x0, y0, cut, y1), shapely.box(cut, y0, x1, y1)):
            pending += polygons_of(shapely.intersection(polygon, half))
    return pieces


def polygons_of(geometry: Any) -> list[Any]:
    """Collect the polygons of any geometry, without points and lines."""
    import shapely

    parts = [geometry]
    # Collections may hold collections.
    while any(part.geom_type not in ("Polygon", "Point", "LineString") for part in parts):
        parts = list(shapely.get_parts(parts))
        parts = [p for p in parts if p.geom_type != "LinearRing"]
    return [part for part in parts if part.geom_type == "Polygon" and not part.is_empty]


def fault(polygons: list[Any]) -> str:
    """Return what is wrong with polygons; "" if nothing."""
    import shapely

    whole: Any
    if len(polygons) == 1:
        whole = polygons[0]
    else:
        whole = shapely.multipolygons(polygons)
    reason = str(shapely.is_valid_reason(whole)).split("[")[0].strip().lower()
    if reason == "valid geometry":
        return ""
    return reason


def ring(points: Any) -> Any:
    """Return the polygon of a list of corners (x, y), closed or not."""
    import shapely

    corners = np.asarray(points, np.float64)
    if corners.ndim != 2 or corners.shape[1] != 2 or not np.isfinite(corners).all():
        raise ValueError("its corners are not pairs of numbers")
    if len(corners) < 3:
        raise ValueError(f"its outline has {len(corners)} corners")
    return shapely.Polygon(corners)


def ellipse(x: float, y: float, across: float, down: float) -> Any:
    """Return the polygon of an ellipse about (x, y) with two radii."""
    import shapely

    if not across or not down:
        raise ValueError("its radius is 0")
    circle = shapely.Point(0, 0).buffer(1, quad_segs=_QUARTER)
    return shapely.transform(circle, lambda points: points * (abs(across), abs(down)) + (x, y))


def turned(polygon: Any, degrees: float, about: Any = "center") -> Any:
    """Return a polygon that is turned clockwise about a point."""
    from shapely import affinity

    return affinity.rotate(polygon, degrees, origin=about)


def turned_box(x0: float, y0: float, x1: float, y1: float, degrees: float) -> Any:
    """Return the polygon of a box that is turned clockwise about its centre."""
    from shapely import box

    return turned(box(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1)), degrees)


def finite(value: Any, name: str) -> float:
    """Return a value as a finite number; raises ValueError."""
    try:
        number = float("" if value is None else value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"its {name} is {value!r}, not a number")
    return number


def check_crop(height: int, width: int) -> None:
    """Refuse the box of a mask that is too large to be filled; raises ValueError."""
    if height * width > _MAX_CROP:
        raise ValueError(f"its box of {height} x {width} px is too large")


def fill_polygons(
    region_id: int, polygons: Iterable[Any], shape: tuple[int, int], *, even_odd: bool = False
) -> Region | None:
    """Make a region of the pixels with centres in polygons; None if it lies outside the plane.

    Pixels that several polygons cover belong to the region, but with ``even_odd`` those alone that
    an odd number of them cover. Polygons that contain no pixel centre become the pixel they lie in.
    """
    import shapely

    polygons = list(polygons)
    rings = []
    for polygon in polygons:
        rings.append(
            [np.asarray(ring.coords)[:, :2] for ring in (polygon.exterior, *polygon.interiors)]
        )
    groups = rings
    if even_odd:  # the outlines count together
        groups = [list(chain.from_iterable(rings))]
    filled = [fill(group, shape) for group in groups]
    placed = []
    for filled_part in filled:
        if filled_part is not None:
            placed.append(place_mask(region_id, *filled_part, shape))
    region = united([part for part in placed if part is not None])
    if region is None:
        try:
            clipped: Any = shapely.clip_by_rect(polygons, 0, 0, shape[1], shape[0])
        except shapely.GEOSException:  # of polygons that have no area in the plane
            return None
        visible = []
        for geometry in clipped:
            for part in polygons_of(geometry):
                if part.area:
                    visible.append(part)
        if visible:
            x, y = shapely.get_coordinates(shapely.point_on_surface(visible[0]))[0]
            region = place_mask(region_id, int(y // 1), int(x // 1), np.ones((1, 1), bool), shape)
    return region


def fill(
    rings: list[FloatArray], shape: tuple[int, int]
) -> tuple[int, int, npt.NDArray[np.bool_]] | None:
    """Fill closed rings (n, 2) of (x, y): pixels inside an odd number of rings.

    Returns the row and column of the mask's corner, and the mask; None outside the plane.
    """
    points = np.concatenate(rings)
    low = np.clip(np.floor(points.min(axis=0)), 0, shape[::-1]).astype(int)
    high = np.clip(np.ceil(points.max(axis=0)), 0, shape[::-1]).astype(int)
    (x0, y0) = low.tolist()
    (x1, y1) = high.tolist()
    if x0 >= x1 or y0 >= y1:
        return None
    check_crop(y1 - y0, x1 - x0)
    a = np.concatenate([ring[:-1] for ring in rings])
    b = np.concatenate([ring[1:] for ring in rings])
    turned = (a[:, 1] > b[:, 1])[:, None]
    a, b = np.where(turned, b, a), np.where(turned, a, b)
    # Rows whose centre line an edge crosses, including its upper end but not its lower one.
    first = np.clip(np.ceil(a[:, 1] - 0.5), y0, y1).astype(np.int64)
    counts = np.clip(np.ceil(b[:, 1] - 0.5), y0, y1).astype(np.int64) - first
    if counts.sum() > _MAX_EDGES:
        raise ValueError("it has too many long edges")
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
