"""Regions on the pixels of an image plane: of shapes, and of label images that lie elsewhere."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import EmptyMaskError
from ...base.label_blocks import read_blocks
from ...base.regions import Region, Regions
from ...images.lazy_plane import ArrayLike
from ...regions.label_images import areas_of_labels, regions_of_labels
from .coordinates import Affine2D, FloatArray

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
    regions, outside = [], []
    for shape in shapes:
        region = _region(shape, to_shapes, plane_shape)
        if region is None:
            outside.append(shape.id)
        else:
            regions.append(region)
    if outside:
        names = ", ".join(map(str, outside[:5])) + ", ..." * (len(outside) > 5)
        raise EmptyMaskError(
            f"{lie_outside(len(outside))} (shape {names}); move each onto it, or delete it."
        )
    return Regions(plane_shape, regions)


def lie_outside(count: int) -> str:
    """Return ``"2 regions lie outside the image"``."""
    return f"{count:,} region{'s lie' if count != 1 else ' lies'} outside the image"


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
    across, down = (corners[1] - corners[0]) / 2, (corners[3] - corners[0]) / 2
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
        where = np.clip((points - start) @ along / length, 0, 1) if length else 0.0
        nearest = start + np.outer(where, along) if length else start
        near = np.square(points - nearest).sum(axis=1) <= reach**2
        mask[low[0] : high[0], low[1] : high[1]] |= near.reshape(rows.shape)
    return mask


class LabelsOnPlane:
    """A label image seen on the pixels of an image plane, cut like an array; 0 outside.

    Shapes: labels (h, w).
    """

    def __init__(self, labels: ArrayLike, to_labels: Affine2D, shape: tuple[int, int]) -> None:
        self._labels, self._to_labels = labels, to_labels
        self.shape, self.dtype = shape, labels.dtype

    def __getitem__(self, key: tuple[slice, slice]) -> npt.NDArray[Any]:
        """Look up a box: the label whose pixel holds the centre of the image's."""
        (top, bottom), (left, right) = (
            part.indices(side)[:2] for part, side in zip(key, self.shape, strict=True)
        )
        out = np.zeros((bottom - top, right - left), dtype=self.dtype)
        columns = np.arange(left, right)
        # In bands, to limit the memory of coordinates.
        for start in range(top, bottom, 256):
            rows = np.arange(start, min(start + 256, bottom))[:, None]
            self._look_up(rows, columns, out[start - top : start - top + len(rows)])
        return out

    def _look_up(self, rows: Any, columns: Any, out: npt.NDArray[Any]) -> None:
        matrix, offset = self._to_labels.matrix, self._to_labels.offset
        # Half a pixel goes up, always: rounding to even would make blocks of uneven size.
        y, x = (
            np.floor(matrix[i, 0] * rows + matrix[i, 1] * columns + offset[i] + 0.5 + 1e-6).astype(
                np.intp
            )
            for i in (0, 1)
        )
        height, width = self._labels.shape
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        if not inside.any():
            return
        y, x = y[inside], x[inside]
        y0, x0 = int(y.min()), int(x.min())
        part = np.asarray(self._labels[y0 : int(y.max()) + 1, x0 : int(x.max()) + 1])
        out[inside] = part[y - y0, x - x0]


def regions_on_plane(
    labels: ArrayLike,
    to_labels: Affine2D,
    shape: tuple[int, int],
    only: Container[int] | None = None,
) -> Regions:
    """One region per label, on the image's pixels (nearest label pixel through the world).

    A label too small for any pixel of the image to fall on it becomes the pixels nearest to it, so
    none that lies on the image is lost.
    """
    if to_labels.is_identity() and tuple(labels.shape) == shape:
        return regions_of_labels(labels, only=only)
    regions = regions_of_labels(LabelsOnPlane(labels, to_labels, shape), only=only)
    there = set(areas_of_labels(labels)) - set(regions.ids)
    missed = [value for value in there if only is None or value in only]
    if not missed:
        return regions
    placed = [*regions, *_nearest_pixels(labels, missed, to_labels, shape)]
    return Regions(shape, sorted(placed, key=lambda region: region.id))


def _nearest_pixels(
    labels: ArrayLike, values: list[int], to_labels: Affine2D, shape: tuple[int, int]
) -> list[Region]:
    """Regions of the pixels nearest to each label's own; none for labels outside the plane."""
    inverse = to_labels.inverse
    parts: dict[int, list[npt.NDArray[np.intp]]] = {}
    for y, x, block in read_blocks(labels):
        places = np.argwhere(np.isin(block, np.asarray(values, dtype=block.dtype)))
        names = block[tuple(places.T)]
        pixels = np.round(inverse(places + np.array([y, x]))).astype(np.intp)
        inside = ((pixels >= 0) & (pixels < shape)).all(axis=1)
        names, pixels = names[inside], pixels[inside]
        for name in np.unique(names):
            parts.setdefault(int(name), []).append(pixels[names == name])
    nearest = []
    for name, pieces in parts.items():
        pixels = np.concatenate(pieces)
        (y0, x0), (y1, x1) = pixels.min(axis=0), pixels.max(axis=0) + 1
        mask = np.zeros((y1 - y0, x1 - x0), dtype=bool)
        mask[tuple((pixels - (y0, x0)).T)] = True
        nearest.append(Region(name, (int(y0), int(x0), int(y1), int(x1)), mask))
    return nearest
