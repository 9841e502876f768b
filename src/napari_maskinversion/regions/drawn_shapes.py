"""Shapes as napari draws them to regions: pixels are those whose centres a shape holds.

Corners are (y, x); whole numbers are pixel centres.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..base.errors import EmptyMaskError
from ..base.regions import Region, Regions
from ..base.wording import listed
from .affine import Affine2D, FloatArray

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One drawn shape.

    Shapes: vertices (N, 2).
    """

    id: int  # Its row in the layer
    kind: str  # "rectangle", "ellipse", "polygon", "path" or "line"
    vertices: FloatArray  # In the shapes layer's plane
    width: float = 1.0  # Of the line, in the same coordinates; counts for lines and paths


def rasterise(
    shapes: tuple[Shape, ...], to_shapes: Affine2D, plane_shape: tuple[int, int]
) -> Regions:
    """Convert each shape to a region; overlapping shapes stay complete."""
    regions = []
    outside = []
    for shape in shapes:
        region = _region(shape, to_shapes, plane_shape)
        if region is None:
            outside.append(shape.id)
        else:
            regions.append(region)
    if outside:
        raise EmptyMaskError(
            f"{lie_outside(len(outside))} (shape {listed(outside)}); move each onto it, or delete "
            "it."
        )
    return Regions(plane_shape, regions)


def lie_outside(count: int) -> str:
    """Return ``"2 regions lie outside the image"``."""
    return f"{count:,} region{'s lie' if count != 1 else ' lies'} outside the image"


def pixels_of(shape: Shape) -> Region | None:
    """Return the pixels of a shape on its own plane, also beyond the plane; None for none."""
    reach = math.ceil(shape.width) + 2
    low = np.floor(shape.vertices.min(axis=0)).astype(int) - reach
    high = np.ceil(shape.vertices.max(axis=0)).astype(int) + reach
    y, x, height, width = (int(side) for side in (*low, *(high - low)))
    same = Affine2D(np.eye(2), np.zeros(2))
    region = _region(replace(shape, vertices=shape.vertices - low), same, (height, width))
    if region is None:
        return None
    y0, x0, y1, x1 = region.bbox
    return replace(region, bbox=(y0 + y, x0 + x, y1 + y, x1 + x))


def _region(shape: Shape, to_shapes: Affine2D, plane_shape: tuple[int, int]) -> Region | None:
    to_pixels = to_shapes.inverse
    open_line = shape.kind in ("path", "line")
    outline = outline_of(shape, to_pixels)
    margin = 0.0
    if open_line:
        # Half the line's width in pixels, at most.
        margin = 0.5 * shape.width * float(np.linalg.norm(to_pixels.matrix, 2)) + 1
    low = np.floor(outline.min(axis=0) - margin).astype(int)
    high = np.ceil(outline.max(axis=0) + margin).astype(int) + 1
    y0, x0 = (int(v) for v in np.clip(low, 0, plane_shape))
    y1, x1 = (int(v) for v in np.clip(high, 0, plane_shape))
    if y0 >= y1 or x0 >= x1:
        return None
    if open_line:
        mask = _stroke(shape, to_shapes, (y0, x0, y1, x1))
    else:
        mask = _fill(outline - (y0, x0), (y1 - y0, x1 - x0))
    return Region.from_mask(shape.id, mask, (y0, x0))


def outline_of(shape: Shape, to_pixels: Affine2D) -> FloatArray:
    """Points on the outline of a shape, in pixels: its corners, or many on an ellipse."""
    if shape.kind == "ellipse":
        return _ellipse_outline(shape.vertices, to_pixels)
    return to_pixels(shape.vertices)


def _ellipse_outline(corners: FloatArray, to_pixels: Affine2D) -> FloatArray:
    """Points on the ellipse whose (possibly rotated) bounding box has these four corners."""
    centre = corners.mean(axis=0)
    across = (corners[1] - corners[0]) / 2
    down = (corners[3] - corners[0]) / 2
    size = float(np.abs(to_pixels.matrix).max() * np.abs([across, down]).max())
    angle = np.linspace(0, 2 * np.pi, int(np.clip(4 * size, 64, 2048)), endpoint=False)
    return to_pixels(centre + np.outer(np.cos(angle), across) + np.outer(np.sin(angle), down))


def _fill(outline: FloatArray, size: tuple[int, int]) -> BoolArray:
    """Pixels whose centres lie inside; at least the ones on the outline of a sliver."""
    from skimage.draw import line, polygon

    mask = np.zeros(size, dtype=bool)
    mask[polygon(outline[:, 0], outline[:, 1], size)] = True
    if not mask.any():
        corners = np.clip(np.round(outline).astype(int), 0, np.asarray(size) - 1)
        for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            mask[line(*start, *end)] = True
    return mask


def _stroke(shape: Shape, to_shapes: Affine2D, box: tuple[int, int, int, int]) -> BoolArray:
    """Pixels whose centres lie within half the line's width of it, measured where it was drawn."""
    y0, x0, y1, x1 = box
    mask = np.zeros((y1 - y0, x1 - x0), dtype=bool)
    # A line thinner than a pixel still leaves a trace.
    pixel = float(np.linalg.norm(to_shapes.matrix, 2))
    reach = max(shape.width / 2, pixel / 2)
    to_pixels = to_shapes.inverse
    margin = reach * float(np.linalg.norm(to_pixels.matrix, 2)) + 1
    for start, end in zip(shape.vertices[:-1], shape.vertices[1:], strict=True):
        # Only the pixels around this piece: a freehand path has hundreds of short ones.
        ends = to_pixels(np.stack([start, end])) - (y0, x0)
        low = np.clip(np.floor(ends.min(axis=0) - margin), 0, mask.shape).astype(int)
        high = np.clip(np.ceil(ends.max(axis=0) + margin) + 1, 0, mask.shape).astype(int)
        rows, columns = np.mgrid[low[0] : high[0], low[1] : high[1]]
        points = to_shapes(np.column_stack([rows.ravel() + y0, columns.ravel() + x0]))
        along = end - start
        length = float(along @ along)
        where = 0.0
        if length:
            where = np.clip((points - start) @ along / length, 0, 1)
        nearest = start + np.outer(where, along) if length else start
        near = np.square(points - nearest).sum(axis=1) <= reach**2
        mask[low[0] : high[0], low[1] : high[1]] |= near.reshape(rows.shape)
    return mask
