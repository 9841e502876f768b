"""Coordinates: the plane a viewer shows, and its pixels in other layers.

A *pixel* here is a pixel of the image plane that is inverted, (row, column), at full resolution. A
layer's *data* coordinates are array indices of its data; *world* coordinates are the viewer's.
`ViewPoint` and `Grid` are copies of viewer and layer state: any thread may use them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...regions.affine import Affine2D, FloatArray
from .viewer_protocols import Layer, Viewer, has_pixels, has_pyramid


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPoint:
    """The part of the world that a viewer shows."""

    # World coordinates of the slice, one per dimension of the viewer; 0 on the displayed axes
    point: tuple[float, ...]
    # The two world axes that span the plane: the one that runs down the canvas, then the one that
    # runs across. Not ascending where the dimensions are transposed or rolled.
    displayed: tuple[int, int]
    labels: tuple[str, ...]  # Names of the world's axes
    # The world's unit along each axis; empty where layers have none in common
    units: tuple[Any, ...] = ()

    @classmethod
    def of(cls, viewer: Viewer) -> ViewPoint:
        """Read it from a viewer; in 3-D the plane of the last two displayed axes."""
        dims = viewer.dims
        rows, columns = (int(axis) for axis in tuple(dims.displayed)[-2:])
        point = [float(value) for value in dims.point]
        # napari shifts these two as layers move, which changes nothing of what is shown.
        point[rows] = point[columns] = 0.0
        return cls(
            point=tuple(point),
            displayed=(rows, columns),
            labels=tuple(str(label) for label in dims.axis_labels),
            units=tuple(getattr(dims, "units", None) or ()),
        )

    def at(self, axes: Sequence[int], world: npt.ArrayLike) -> ViewPoint:
        """Return the same view with another point on some axes."""
        point = list(self.point)
        for axis, value in zip(axes, np.asarray(world, dtype=float), strict=True):
            point[axis] = float(value)
        return replace(self, point=tuple(point))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Grid:
    """Shape of a layer's array and its transform to the world."""

    name: str  # Of the layer, for messages
    # Of its data at full resolution, without colours; empty for shapes and points
    shape: tuple[int, ...]
    matrix: FloatArray  # World coordinates are ``matrix @ data + offset``
    offset: FloatArray

    @classmethod
    def of(cls, layer: Layer, view: ViewPoint) -> Grid:
        """Copy it from a layer; scale, translate, rotate, shear, affine and units all count."""
        count = int(layer.ndim)
        offset = np.asarray(layer.data_to_world(np.zeros(count)), dtype=np.float64)
        columns = [np.asarray(layer.data_to_world(row)) - offset for row in np.eye(count)]
        matrix = np.column_stack(columns).astype(np.float64)
        # The viewer's world is in one unit; a layer's own world is in the layer's.
        factors = _unit_factors(layer, view)
        matrix, offset = factors[:, None] * matrix, factors * offset
        scale = float(np.prod(np.linalg.norm(matrix, axis=0)))
        if not np.isfinite(matrix).all() or abs(np.linalg.det(matrix)) <= 1e-9 * scale:
            raise InputError(
                f"Layer '{layer.name}' has a transform that flattens it (a singular affine); "
                "set an affine that is invertible."
            )
        return cls(name=str(layer.name), shape=_shape(layer), matrix=matrix, offset=offset)

    @property
    def ndim(self) -> int:
        """Spatial dimensions."""
        return len(self.offset)

    def to_world(self, data: npt.ArrayLike) -> FloatArray:
        """World coordinates (..., n) of data coordinates (..., n)."""
        moved: FloatArray = np.asarray(data, dtype=float) @ self.matrix.T + self.offset
        return moved

    def to_data(self, world: npt.ArrayLike) -> FloatArray:
        """Data coordinates of world coordinates."""
        shifted = np.asarray(world, dtype=float) - self.offset
        return np.asarray(np.linalg.solve(self.matrix, shifted.T).T, dtype=np.float64)


def _unit_factors(layer: Layer, view: ViewPoint) -> FloatArray:
    """Lengths of the layer's units in the viewer's."""
    layer_units = tuple(getattr(layer, "units", None) or ())
    # A layer with fewer dimensions lies on the trailing ones of the world.
    world_units = view.units[len(view.units) - len(layer_units) :]
    if not layer_units or len(layer_units) > len(view.units) or layer_units == world_units:
        return np.ones(layer.ndim)
    import pint

    registry: Any = pint.get_application_registry()  # type: ignore[no-untyped-call]
    factors = []
    for layer_unit, world_unit in zip(layer_units, world_units, strict=True):
        length, _ = registry.get_base_units(layer_unit)
        world_length, _ = registry.get_base_units(world_unit)
        factors.append(float(length / world_length))
    return np.array(factors)


def _shape(layer: Layer) -> tuple[int, ...]:
    if not has_pixels(layer):
        return ()
    if has_pyramid(layer):
        data = layer.data[0]
    else:
        data = layer.data
    shape = data.shape[: layer.ndim]
    if not np.isfinite(shape).all():
        raise InputError(
            f"Layer '{layer.name}' has a dask array of unknown size; give the layer "
            "data.compute_chunk_sizes()."
        )
    return tuple(int(side) for side in shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The part of a layer's data that lies in the plane shown."""

    axes: tuple[int, int]  # The data axes of rows and columns, in this order
    index: tuple[int, ...]  # The data index of the plane; 0 on `axes`

    @property
    def others(self) -> tuple[int, ...]:
        """The data axes that are not in the plane."""
        return tuple(axis for axis in range(len(self.index)) if axis not in self.axes)

    @property
    def index_of_others(self) -> tuple[int, ...]:
        """The data index of the plane on those axes."""
        return tuple(self.index[axis] for axis in self.others)

    def check(self, grid: Grid) -> None:
        """Raise if the plane lies outside a layer's data."""
        for axis in self.others:
            if grid.shape and not 0 <= self.index[axis] < grid.shape[axis]:
                raise InputError(
                    f"The plane shown lies outside the layer '{grid.name}' (index "
                    f"{self.index[axis]} on an axis of {grid.shape[axis]}); move the dimension "
                    "slider to a plane that it has."
                )


def slice_of(grid: Grid, view: ViewPoint) -> Slice:
    """Find the plane of a layer that is shown; it may lie outside the data."""
    missing = len(view.point) - grid.ndim  # layers with fewer dimensions have the trailing ones
    axes = (view.displayed[0] - missing, view.displayed[1] - missing)
    if min(axes) < 0:
        raise InputError(
            f"Layer '{grid.name}' has no extent along a displayed axis; "
            "show the plane it was drawn on."
        )
    index = np.zeros(grid.ndim, dtype=int)
    across = [axis for axis in range(grid.ndim) if axis not in axes]  # from plane to plane
    if across:
        # As the viewer does: what rows and columns of a tilted layer contribute is ignored.
        inverse = np.linalg.inv(grid.matrix)
        shift = -inverse @ grid.offset
        point = np.asarray(view.point[missing:])
        index[across] = np.round(inverse[np.ix_(across, across)] @ point[across] + shift[across])
    return Slice(axes=axes, index=tuple(int(place) for place in index))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """One plane of an image layer, as a grid of pixels."""

    cut: Slice  # Its place in the layer's data
    shape: tuple[int, int]  # Pixels (H, W) at full resolution
    # Where the plane lies on the image's other axes: ``(("z", 12), ("t", 3))``
    position: tuple[tuple[str, int], ...] = ()

    def to_data(self, pixels: npt.ArrayLike) -> FloatArray:
        """Data coordinates (N, ndim) of pixels (N, 2)."""
        points = np.atleast_2d(np.asarray(pixels, dtype=float))
        data = np.tile(np.asarray(self.cut.index, dtype=float), (len(points), 1))
        data[:, list(self.cut.axes)] = points
        return data


def plane_of(grid: Grid, view: ViewPoint) -> Plane:
    """Find the plane of an image layer that is shown, and its pixel grid."""
    cut = slice_of(grid, view)
    cut.check(grid)
    rows, columns = cut.axes
    if 0 in grid.shape:
        raise InputError(
            f"Layer '{grid.name}' has no pixels: its shape is {grid.shape}. Choose another image."
        )
    return Plane(
        cut=cut, shape=(grid.shape[rows], grid.shape[columns]), position=position_of(cut, view)
    )


def position_of(cut: Slice, view: ViewPoint) -> tuple[tuple[str, int], ...]:
    """Name a plane's place by the viewer's names of the axes."""
    names = axis_names(cut, view)
    return tuple((names[axis], cut.index[axis]) for axis in cut.others)


def axis_names(cut: Slice, view: ViewPoint) -> tuple[str, ...]:
    """Name a layer's axes as the viewer does; it numbers axes that have no name."""
    first = len(view.point) - len(cut.index)  # the layer has the trailing axes of the viewer
    names = []
    for axis in range(first, len(view.labels)):
        label = view.labels[axis]
        is_named = label and not label.lstrip("-").isdigit()
        names.append(label if is_named else f"axis {axis}")
    return tuple(names)


def pixels_to_layer(image: Grid, plane: Plane, other: Grid, view: ViewPoint) -> Affine2D:
    """Map pixels of an image plane to in-plane data coordinates of another layer.

    Goes through the world, so the transforms of both layers count.
    """
    axes = list(slice_of(other, view).axes)
    world = np.tile(np.asarray(view.point, dtype=float), (3, 1))
    world[:, -image.ndim :] = image.to_world(plane.to_data([(0, 0), (1, 0), (0, 1)]))
    origin, down, across = other.to_data(world[:, -other.ndim :])[:, axes]
    matrix = np.column_stack([down - origin, across - origin]).astype(np.float64)
    lengths = float(np.prod(np.linalg.norm(matrix, axis=0)))
    if abs(np.linalg.det(matrix)) <= 1e-9 * lengths:
        raise InputError(
            f"Layers '{image.name}' and '{other.name}' do not lie in one plane; "
            "choose a regions layer drawn on this image."
        )
    return Affine2D(matrix, np.asarray(origin, dtype=np.float64))
