"""Regions of label images that need not be in memory."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ...base.errors import ConfigError, EmptyMaskError, InputError
from ...base.identity import Position
from ...base.label_blocks import compact, crop_labels, read_blocks
from ...base.regions import Region, Regions
from ...images.lazy_plane import ArrayLike, LazyPlane
from ...images.plane_source import Array


class _Plane:
    """A `LazyPlane` that is sliced like an array."""

    def __init__(self, plane: LazyPlane, chunks: tuple[Any, Any] | None) -> None:
        self.plane, self.shape, self.dtype, self.chunks = plane, plane.shape, plane.dtype, chunks

    def __getitem__(self, key: tuple[slice, slice]) -> Array:
        rows, columns = (part.indices(side)[:2] for part, side in zip(key, self.shape, strict=True))
        return self.plane.read(0, (rows[0], columns[0], rows[1], columns[1]))


def regions_of_labels(labels: ArrayLike, *, only: Container[int] | None = None) -> Regions:
    """Make a region of each value but 0 of a label image, in order; reads block by block.

    Shapes: labels (H, W).
    """
    if len(labels.shape) != 2:
        raise InputError(
            f"A label image must be a 2-D array of whole numbers; got shape {tuple(labels.shape)}."
        )
    shape = (int(labels.shape[0]), int(labels.shape[1]))
    return Regions(shape, [Region(*crop) for crop in crop_labels(labels, only)])


def areas_of_labels(labels: Any) -> dict[int, int]:
    """Count the pixels of each value but 0 of a 2-D label image; reads block by block."""
    areas: dict[int, int] = {}
    for _, _, block in read_blocks(labels):
        if not block.any():
            continue
        values, numbers = compact(block)
        counts = np.bincount(numbers.ravel(), minlength=len(values) + 1)[1:]
        for place in np.flatnonzero(counts):
            value = int(values[place])
            areas[value] = areas.get(value, 0) + int(counts[place])
    return areas


@dataclass(frozen=True, slots=True)
class PlaneRegions:
    """Regions of one plane of a stack."""

    position: Position  # Axes and indices of the plane, ``(("t", 3), ("z", 12))``
    regions: Regions


def regions_by_plane(
    labels: ArrayLike,
    *,
    names: tuple[str, ...],
    axes: tuple[int, int] | None = None,
    mode: Literal["largest", "each"] = "largest",
    only: Container[int] | None = None,
    on_plane: Callable[[], None] = lambda: None,
) -> list[PlaneRegions]:
    """Read the regions of each plane of a label image of three or more dimensions."""
    if mode not in ("largest", "each"):
        raise ConfigError(f"Planes are taken as 'largest' or 'each'; got {mode!r}.")
    count = len(labels.shape)
    rows, columns = (count - 2, count - 1) if axes is None else axes
    others = [axis for axis in range(count) if axis not in (rows, columns)]
    indices = list(np.ndindex(*(int(labels.shape[axis]) for axis in others)))

    def plane_at(index: tuple[int, ...]) -> ArrayLike:
        # Not kept: a plane caches the chunks it has read.
        place = [0] * count
        for axis, value in zip(others, index, strict=True):
            place[axis] = value
        return plane_of_labels(labels, axes=(rows, columns), index=place)

    best: dict[int, tuple[int, int]] = {}
    if mode == "largest":
        for number, index in enumerate(indices):
            on_plane()
            for value, area in areas_of_labels(plane_at(index)).items():
                if area > best.get(value, (0, 0))[0]:
                    best[value] = (area, number)
    planes = []
    for number, index in enumerate(indices):
        values: Container[int] | None = only
        if mode == "largest":
            here = {value for value, (_, where) in best.items() if where == number}
            values = here if only is None else {value for value in here if value in only}
            if not values:
                continue
        on_plane()
        regions = regions_of_labels(plane_at(index), only=values)
        if len(regions):
            position = tuple((names[a], value) for a, value in zip(others, index, strict=True))
            planes.append(PlaneRegions(position, regions))
    if not planes and only is not None:
        raise EmptyMaskError("None of the chosen regions is on any plane of the label image.")
    if not planes:
        raise EmptyMaskError("The label image has no region on any plane: every pixel is 0.")
    return planes


def plane_of_labels(labels: ArrayLike, *, axes: tuple[int, int], index: list[int]) -> ArrayLike:
    """Return one plane of a label image, sliced like a 2-D array."""
    if isinstance(labels, np.ndarray):
        key: tuple[Any, ...] = tuple(
            slice(None) if axis in axes else index[axis] for axis in range(labels.ndim)
        )
        plane: Any = labels[key]
        turned: ArrayLike = plane if axes[0] < axes[1] else plane.T
        return turned
    chunks = getattr(labels, "chunks", None)
    return _Plane(
        LazyPlane([labels], axes=axes, index=index),
        None if not chunks else (chunks[axes[0]], chunks[axes[1]]),
    )
