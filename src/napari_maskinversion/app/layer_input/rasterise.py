"""Regions of label images that lie elsewhere than the image, on the pixels of its plane."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.label_blocks import read_blocks
from ...base.regions import Region, Regions
from ...images.lazy_plane import ArrayLike
from ...regions.affine import Affine2D
from ...regions.label_images import areas_of_labels, regions_of_labels


class LabelsOnPlane:
    """A label image seen on the pixels of an image plane, cut like an array; 0 outside.

    Shapes: labels (h, w).
    """

    def __init__(self, labels: ArrayLike, to_labels: Affine2D, shape: tuple[int, int]) -> None:
        self._labels, self._to_labels = labels, to_labels
        self.shape, self.dtype = shape, labels.dtype

    def __getitem__(self, key: tuple[slice, slice]) -> npt.NDArray[Any]:
        """Look up a box: the label whose pixel holds the centre of the image's."""
        rows_wanted, columns_wanted = key
        top, bottom, _ = rows_wanted.indices(self.shape[0])
        left, right, _ = columns_wanted.indices(self.shape[1])
        out = np.zeros((bottom - top, right - left), dtype=self.dtype)
        columns = np.arange(left, right)
        # In bands, to limit the memory of coordinates.
        for start in range(top, bottom, 256):
            rows = np.arange(start, min(start + 256, bottom))[:, None]
            self._look_up(rows, columns, out[start - top : start - top + len(rows)])
        return out

    def _look_up(
        self, rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp], out: npt.NDArray[Any]
    ) -> None:
        matrix, offset = self._to_labels.matrix, self._to_labels.offset
        y, x = (
            matrix[axis, 0] * rows + matrix[axis, 1] * columns + offset[axis] for axis in (0, 1)
        )
        # Half a pixel goes up, always: rounding to even would make blocks of uneven size.
        y = np.floor(y + 0.5 + 1e-6).astype(np.intp)
        x = np.floor(x + 0.5 + 1e-6).astype(np.intp)
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
    lost = set(areas_of_labels(labels)) - set(regions.ids)
    missed = [value for value in lost if only is None or value in only]
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
