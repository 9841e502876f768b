"""Masks to polygons along pixel edges, and polygons to masks.

Coordinates are (x, y) with (0, 0) at the outer corner of the first pixel, so the pixel in row 0,
column 0 is the square from 0 to 1. A pixel belongs to a polygon if its centre does: filling the
outline of a mask returns the mask.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import EmptyMaskError, InputError
from ...base.regions import Region
from .annotation import binary_mask, check_crop, cut, misses_image, place_mask, record_errors

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

FloatArray = npt.NDArray[np.float64]
_MOST_COORDINATE: Final = 1e9  # of pixels; sums of larger numbers lose the pixels
_MAX_EDGES: Final = 50_000_000  # pixel rows crossed by edges, summed over a region's edges
_MOST_CROSSINGS: Final = 2_000  # each counted twice; GEOS takes a second for them
_MOST_COMPARED: Final = 5_000_000  # pairs of edges whose boxes touch; outlines have ten an edge
_MANY_CORNERS: Final = 20_000
_PIECE: Final = 64  # edges compared with all others at once


def outline(region: Region) -> BaseGeometry:
    """Trace a region as a valid Polygon or MultiPolygon with holes.

    Parts that only touch at a corner are separate.
    """
    import shapely

    mask = np.pad(binary_mask(region), 1)
    across, down = mask[1:] != mask[:-1], mask[:, 1:] != mask[:, :-1]
    # (rows + 1, columns + 1) corners; edges to their right and below them.
    right, below = across[:, 1:], down[1:, :]
    corner = (across[:, 1:] | across[:, :-1]) & (down[1:, :] | down[:-1, :])
    right, below = right[:, :-1], below[:-1, :]
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
    shape: Any = faces[0] if len(faces) == 1 else shapely.multipolygons(faces)
    moved: BaseGeometry = shapely.transform(shape, lambda points: points + np.array([x0, y0]))
    return moved


def without_holes(polygons: Iterable[Any]) -> list[Any]:
    """Cut polygons along the left edges of their holes; the pieces cover the same pixels."""
    import shapely

    pieces, rest = [], list(polygons)
    while rest:
        polygon = rest.pop()
        if not len(polygon.interiors):
            pieces.append(polygon)
            continue
        x0, y0, x1, y1 = polygon.bounds
        cut = polygon.interiors[0].bounds[0]
        for half in (shapely.box(x0, y0, cut, y1), shapely.box(cut, y0, x1, y1)):
            rest += polygons_of(shapely.intersection(polygon, half))
    return pieces


def polygons_of(geometry: Any) -> list[Any]:
    """Collect the polygons of any geometry, without points and lines."""
    import shapely

    parts = [geometry]
    while any(part.geom_type not in ("Polygon", "Point", "LineString") for part in parts):
        parts = list(shapely.get_parts(parts))
        parts = [p for p in parts if p.geom_type != "LinearRing"]
    return [part for part in parts if part.geom_type == "Polygon" and not part.is_empty]


def repair(polygons: list[Any]) -> tuple[list[Any], str]:
    """Return valid polygons that cover the same area, and what was wrong ("" if nothing).

    Polygons that cross themselves very often stay as they are: `fill` covers the same pixels, but
    for those that an even number of them cover.
    """
    import shapely

    whole: Any = polygons[0] if len(polygons) == 1 else shapely.multipolygons(polygons)
    many = shapely.get_num_coordinates(whole) > _MANY_CORNERS
    # GEOS needs long to see what is wrong with very many corners on each other.
    if many and _crosses_often(polygons):
        return polygons, "self-intersection"
    # The reason alone: asking for validity first takes as long again.
    reason = str(shapely.is_valid_reason(whole)).split("[")[0].strip().lower()
    if reason == "valid geometry":
        return polygons, ""
    if not many and _crosses_often(polygons):
        return polygons, reason
    # One by one: pixels that several of them cover belong to all.
    valid = [part for polygon in polygons for part in polygons_of(shapely.make_valid(polygon))]
    return polygons_of(shapely.union_all(valid)), reason


def _crosses_often(polygons: list[Any]) -> bool:
    """Return whether so many edges cross that GEOS would take minutes to untangle them."""
    import shapely

    rings = [
        np.asarray(ring.coords)
        for polygon in polygons
        for ring in (polygon.exterior, *polygon.interiors)
    ]
    ends = np.concatenate([np.stack([ring[:-1], ring[1:]], 1) for ring in rings])
    edges: Any = shapely.linestrings(ends)
    tree = shapely.STRtree(edges)
    crossings = compared = 0
    for start in range(0, len(edges), _PIECE):
        piece, near = tree.query(edges[start : start + _PIECE])
        compared += len(near)
        if compared > _MOST_COMPARED:  # edges that lie on each other do not cross
            return True
        crossings += int(shapely.crosses(edges[start + piece], edges[near]).sum())
        if crossings > _MOST_CROSSINGS:
            return True
    return False


def exceeds(polygons: list[Any], shape: tuple[int, int]) -> bool:
    """Return whether polygons extend beyond a plane."""
    slack = 1e-3  # world coordinates are rounded
    for polygon in polygons:
        x0, y0, x1, y1 = polygon.bounds
        if min(x0, y0) < -slack or x1 > shape[1] + slack or y1 > shape[0] + slack:
            return True
    return False


def ring(points: Any) -> Any:
    """Return the polygon of a list of corners (x, y), closed or not."""
    import shapely

    try:
        corners = np.asarray(points, np.float64)
    except (TypeError, ValueError):
        raise ValueError("its corners are not pairs of numbers") from None
    if corners.ndim != 2 or corners.shape[1] != 2 or not np.isfinite(corners).all():
        raise ValueError("its corners are not pairs of numbers")
    if len(corners) < 3:
        raise ValueError(f"its outline has {len(corners)} corners")
    return shapely.Polygon(corners)


def draw_region(
    region_id: int,
    polygons: list[Any],
    where: str,
    shape: tuple[int, int],
    notes: list[str],
    hint: str = "",
    *,
    even_odd: bool = False,
) -> Region:
    """Make a region of polygons; repairs them and cuts them at the plane, with notes."""
    reason = ""
    if any(np.abs(polygon.bounds).max(initial=0) > _MOST_COORDINATE for polygon in polygons):
        raise InputError(f"{where} is broken: its corners lie beyond {_MOST_COORDINATE:.0e}.")
    if not even_odd:
        polygons, reason = repair(polygons)
    if not polygons:
        raise InputError(f"{where} is broken ({reason}) and covers nothing when repaired.")
    if reason:
        notes.append(f"{where} was repaired: {reason}.")
    with record_errors(where):
        region = fill_polygons(region_id, polygons, shape)
    if region is None:
        raise EmptyMaskError(f"{misses_image(where, shape)}{hint}")
    if exceeds(polygons, shape):
        notes.append(cut(where))
    return region


def fill_polygons(region_id: int, polygons: Iterable[Any], shape: tuple[int, int]) -> Region | None:
    """Make a region of the pixels with centres in polygons; None if it lies outside the plane.

    Polygons that contain no pixel centre become the pixel they lie in.
    """
    import shapely

    polygons = list(polygons)
    rings: list[FloatArray] = []
    for polygon in polygons:
        rings += [np.asarray(ring.coords)[:, :2] for ring in (polygon.exterior, *polygon.interiors)]
    filled = fill(rings, shape)
    region = None if filled is None else place_mask(region_id, *filled, shape)
    if region is None and polygons:
        clipped: Any = shapely.clip_by_rect(polygons, 0, 0, shape[1], shape[0])
        visible = [part for one in clipped for part in polygons_of(one) if part.area]
        x, y = shapely.get_coordinates(shapely.point_on_surface([*visible, *polygons][0]))[0]
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
    (x0, y0), (x1, y1) = low.tolist(), high.tolist()
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
