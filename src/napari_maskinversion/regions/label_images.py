"""Regions of label images that need not be in memory, and of stacks of them.

The planes of a label file are matched to the planes of an image.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from itertools import combinations, groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from ..base.errors import InputError, MaskShapeError, NoRegionsError, if_turned
from ..base.identity import Position
from ..base.label_blocks import compact, crop_labels, read_blocks
from ..base.regions import Region, Regions
from ..images.lazy_plane import ArrayLike, LazyPlane
from ..images.ome_zarr import is_zarr, label_images
from ..images.opening import open_labels
from ..images.plane_source import Array
from ..images.stack import Stack
from ..images.tiff import TIFF, is_tiff

Mode = Literal["largest", "each"]


class _Plane:
    """A `LazyPlane` that is sliced like an array."""

    def __init__(self, plane: LazyPlane, chunks: tuple[Any, Any] | None) -> None:
        self.plane = plane
        self.shape = plane.shape
        self.dtype = plane.dtype
        self.chunks = chunks

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


class _PlacedRegion(NamedTuple):
    plane: int
    region: Region


def regions_by_plane(
    labels: ArrayLike,
    *,
    names: tuple[str, ...],
    axes: tuple[int, int] | None = None,
    mode: Mode = "largest",
    only: Container[int] | None = None,
    on_plane: Callable[[], None] = lambda: None,
) -> list[PlaneRegions]:
    """Read the regions of each plane of a label image of three or more dimensions."""
    count = len(labels.shape)
    if axes is None:
        rows = count - 2
        columns = count - 1
    else:
        rows, columns = axes
    page_axes = [axis for axis in range(count) if axis not in (rows, columns)]
    indices = list(np.ndindex(*(int(labels.shape[axis]) for axis in page_axes)))

    def plane_at(index: tuple[int, ...]) -> ArrayLike:
        # Not kept: a plane caches the chunks it has read.
        place = [0] * count
        for axis, value in zip(page_axes, index, strict=True):
            place[axis] = value
        return plane_of_labels(labels, axes=(rows, columns), index=place)

    # The largest region of a number, or each on its plane
    placed: dict[Any, _PlacedRegion] = {}
    for plane, index in enumerate(indices):
        on_plane()
        for region in regions_of_labels(plane_at(index), only=only):
            key = region.id if mode == "largest" else (plane, region.id)
            if key not in placed or region.area > placed[key].region.area:
                placed[key] = _PlacedRegion(plane, region)
    shape = int(labels.shape[rows]), int(labels.shape[columns])
    planes = []
    in_order = sorted(placed.values(), key=lambda region: (region.plane, region.region.id))
    page_names = [names[axis] for axis in page_axes]
    for plane, on_same_plane in groupby(in_order, key=attrgetter("plane")):
        position = tuple(zip(page_names, indices[plane], strict=True))
        regions = [region.region for region in on_same_plane]
        planes.append(PlaneRegions(position, Regions(shape, regions)))
    if planes:
        return planes
    if only is None:
        raise NoRegionsError("The label image has no region on any plane: every pixel is 0.")
    raise NoRegionsError("None of the chosen regions is on any plane of the label image.")


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
    if not chunks:
        plane_chunks = None
    else:
        plane_chunks = (chunks[axes[0]], chunks[axes[1]])
    return _Plane(
        LazyPlane([labels], axes=axes, index=index),
        plane_chunks,
    )


def check_size(shape: tuple[int, ...], name: str, image_shape: tuple[int, int]) -> None:
    """Refuse masks that do not have the size of the image."""
    if shape != image_shape:
        size = " x ".join(str(side) for side in shape)
        raise MaskShapeError(
            f"{name} is {size} px but the image is {image_shape[0]} x {image_shape[1]} px; "
            f"use masks drawn on this image.{if_turned(shape, image_shape)}"
        )


def has_planes(path: Path, image: Stack, series: int = 0) -> bool:
    """Return whether the planes of a label file are those of the image.

    For a flat image, or if the number differs, pages are binary masks.
    """
    stacked = is_zarr(path) or (path.is_file() and path.suffix.lower() in {*TIFF, ".npy"})
    if not image.plane_axes or not stacked:
        return False
    with open_labels(path, series) as labels:
        return bool(labels.pages) and bool(
            matched_axes(labels, image.plane_axes, guessed=image.guessed)
        )


def series_of(path: Path, image: Stack) -> int:
    """Return which image of a label file belongs to an image: the one with the same number."""
    if len(image.images) < 2 or not (is_tiff(path) or is_zarr(path)):
        return 0
    if is_zarr(path) and label_images(path, image.series):
        return image.series
    with open_labels(path) as labels:
        count = len(labels.images)
    if count > 1 and count != len(image.images):
        raise InputError(
            f"{path} holds {count} label images and {image.name} {len(image.images)} images; save "
            "as many, or one file of regions for each."
        )
    if count > 1:
        return image.series
    return 0


def read_plane_regions(
    path: Path,
    image: Stack,
    position: Mapping[str, int],
    *,
    mode: Mode | None,
    only: Container[int] | None = None,
    series: int = 0,
) -> list[PlaneRegions]:
    """Read a label file of three or more dimensions, each region on its plane of the image."""
    with open_labels(path, series) as labels:
        axes = labels.axes.index("y"), labels.axes.index("x")
        check_size(labels.shape, str(path), image.shape)
        matched = matched_axes(labels, image.plane_axes, guessed=image.guessed)
        if matched is None:
            raise InputError(
                f"{path} has planes {_named(labels.pages)} and {image.name} has "
                f"{_named(image.plane_axes)}; labels need the planes of the image."
            )
        missing = [name for name in image.pages if name not in ("c", *position)]
        left = []
        for name in missing:
            if mode is None or name not in matched.values():
                left.append(name)
        if left:
            if mode:
                way_out = "."
            else:
                way_out = ", or use all of them (--planes)."
            raise InputError(
                f"{image.name} has {image.plane_axes[left[0]]} planes along {left[0]}; choose one "
                f"({left[0]}=0 to {left[0]}={image.plane_axes[left[0]] - 1}, --plane)" + way_out
            )
        names = tuple(matched.get(name, name) for name in labels.axes)
        chosen = {}
        for name, place in position.items():
            if name in matched.values():
                chosen[name] = place
        if mode is not None and chosen:
            raise InputError(
                f"--planes uses all planes of the labels and --plane one of them "
                f"({', '.join(chosen)}); use only one of the two options."
            )
        array = labels.levels[0]
        try:
            if mode is not None:
                planes = regions_by_plane(array, names=names, axes=axes, mode=mode, only=only)
            else:
                index = [chosen.get(name, 0) for name in names]
                flat = plane_of_labels(array, axes=axes, index=index)
                regions = regions_of_labels(flat, only=only)
                if len(regions):
                    planes = [PlaneRegions(tuple(chosen.items()), regions)]
                else:
                    planes = []
        except NoRegionsError as error:
            raise NoRegionsError(f"{path}: {error}") from None
    if not planes:
        chosen_text = ",".join(f"{name}={place}" for name, place in chosen.items())
        raise NoRegionsError(f"{path} has no region on plane {chosen_text}.")
    placed = []
    for plane in planes:
        # Drop axes of length 1 that only the labels have; add the chosen ones.
        places = {**position, **dict(plane.position)}
        where = tuple((name, places[name]) for name in image.plane_axes if name in places)
        placed.append(PlaneRegions(where, plane.regions))
    return placed


def matched_axes(
    labels: Stack, image: Mapping[str, int], *, guessed: bool = False
) -> dict[str, str] | None:
    """Map the labels' axes to those of the image (names to sizes); None if they do not fit.

    Axes of the same names may come in another order; if names are ``guessed``, only if their sizes
    differ. The labels may lack axes if sizes and order identify which.
    """
    pages = labels.pages
    if "s" in labels.axes:
        return None
    in_order = [name for name in image if name in pages] == list(pages)
    alike = len(set(pages.values())) < len(pages)
    swapped = alike and not in_order and (guessed or labels.guessed)
    if pages.items() <= image.items() and not swapped:
        return {name: name for name in pages}
    planes = []
    for name, size in image.items():
        if size > 1:
            planes.append(name)
    fitting = []
    for names in combinations(planes, len(pages)):
        if [image[name] for name in names] == list(pages.values()):
            fitting.append(names)
    if len(fitting) == 1:
        return dict(zip(pages, fitting[0], strict=True))
    return None


def _named(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({size})" for name, size in sizes.items()) or "none"
