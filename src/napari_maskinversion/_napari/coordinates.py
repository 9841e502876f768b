"""Where things are: the plane a viewer shows, and how its pixels lie in other layers.

A *pixel* here is a pixel of the image plane that is inverted, (row, column). A layer's *data*
coordinates are array indices of its data; *world* coordinates are the viewer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.errors import InputError

FloatArray = npt.NDArray[np.float64]

# Planes of pyramids larger than this come from a coarser level: the model sees some 450 pixels.
_LARGEST_SIDE = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPoint:
    """What of the world a viewer shows.

    Parameters
    ----------
    point : tuple of float
        World coordinates of the slice, one per dimension of the viewer.
    displayed : tuple of int
        The two world axes that span the plane, ascending.
    labels : tuple of str
        Names of the world's axes.
    """

    point: tuple[float, ...]
    displayed: tuple[int, int]
    labels: tuple[str, ...]

    @classmethod
    def of(cls, viewer: Any) -> ViewPoint:
        """Read it from a viewer; in 3-D the plane of the last two displayed axes is meant."""
        dims = viewer.dims
        rows, columns = sorted(int(axis) for axis in tuple(dims.displayed)[-2:])
        return cls(
            point=tuple(float(value) for value in dims.point),
            displayed=(rows, columns),
            labels=tuple(str(label) for label in dims.axis_labels),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The part of a layer's data that lies in the plane shown.

    Parameters
    ----------
    axes : tuple of int
        The data axes of rows and columns.
    index : tuple of int
        The data index of the plane; 0 on `axes`.
    """

    axes: tuple[int, int]
    index: tuple[int, ...]

    def of(self, data: Any, shape: Sequence[int]) -> Any:
        """Cut the plane out of ``data`` whose spatial shape is ``shape``; nothing is copied.

        Raises
        ------
        InputError
            If the plane lies outside the data.
        """
        key: list[int | slice] = []
        for axis, position in enumerate(self.index):
            if axis in self.axes:
                key.append(slice(None))
            elif 0 <= position < shape[axis]:
                key.append(position)
            else:
                raise InputError(
                    f"The plane shown lies outside the layer (index {position} on an axis of "
                    f"{shape[axis]}); move the dimension slider to a plane that it has."
                )
        return data[tuple(key)]


def slice_of(layer: Any, view: ViewPoint) -> Slice:
    """Find the plane of a layer that is shown.

    Raises
    ------
    InputError
        If the layer does not extend along both displayed axes.
    """
    missing = len(view.point) - layer.ndim  # layers with fewer dimensions have the trailing ones
    axes = (view.displayed[0] - missing, view.displayed[1] - missing)
    if min(axes) < 0:
        raise InputError(
            f"Layer '{layer.name}' has no extent along a displayed axis; "
            "show the plane it was drawn on."
        )
    position = np.round(layer.world_to_data(view.point)).astype(int)
    index = tuple(0 if axis in axes else int(position[axis]) for axis in range(layer.ndim))
    return Slice(axes=axes, index=index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """The plane of an image layer that is shown, as a grid of pixels.

    Parameters
    ----------
    cut : Slice
        Its place in the layer's data.
    shape : tuple of int
        Pixels (H, W).
    level : int
        Of the pyramid; 0 for plain layers.
    step : tuple of float
        Data coordinates per pixel, 1 for plain layers: the data point of pixel p is
        ``step * p + (step - 1) / 2``.
    position : tuple of str
        Where the plane lies, for people: ``("z 12", "t 3")``.
    """

    cut: Slice
    shape: tuple[int, int]
    level: int = 0
    step: tuple[float, float] = (1.0, 1.0)
    position: tuple[str, ...] = ()

    def to_data(self, pixels: npt.ArrayLike) -> FloatArray:
        """Data coordinates (N, ndim) of pixels (N, 2)."""
        points = np.atleast_2d(np.asarray(pixels, dtype=float))
        step = np.asarray(self.step)
        data = np.tile(np.asarray(self.cut.index, dtype=float), (len(points), 1))
        data[:, list(self.cut.axes)] = points * step + (step - 1) / 2
        return data


def plane_of(layer: Any, view: ViewPoint) -> Plane:
    """Find the plane of an image layer that is shown, and its pixel grid."""
    cut = slice_of(layer, view)
    levels = list(layer.data) if layer.multiscale else [layer.data]
    level = 0
    while level + 1 < len(levels) and max(levels[level].shape[a] for a in cut.axes) > _LARGEST_SIDE:
        level += 1
    full, chosen = levels[0].shape, levels[level].shape
    # Named positions only where there is a choice of planes.
    shift = len(view.point) - layer.ndim
    position = tuple(
        f"{axis_name(view.labels[axis + shift], axis + shift)} {cut.index[axis]}"
        for axis in range(layer.ndim)
        if axis not in cut.axes
    )
    rows, columns = cut.axes
    return Plane(
        cut=cut,
        shape=(int(chosen[rows]), int(chosen[columns])),
        level=level,
        step=(full[rows] / chosen[rows], full[columns] / chosen[columns]),
        position=position,
    )


def axis_name(label: str, axis: int) -> str:
    """Return an axis's name; napari numbers axes that have none."""
    return label if label and not label.lstrip("-").isdigit() else f"axis {axis}"


@dataclass(frozen=True, slots=True)
class Affine2D:
    """``x -> matrix @ x + offset`` between two planes."""

    matrix: FloatArray
    offset: FloatArray

    def __call__(self, points: npt.ArrayLike) -> FloatArray:
        """Map points (N, 2)."""
        moved: FloatArray = np.asarray(points, dtype=float) @ self.matrix.T + self.offset
        return moved

    @property
    def inverse(self) -> Affine2D:
        """The way back."""
        matrix = np.asarray(np.linalg.inv(self.matrix), dtype=np.float64)
        return Affine2D(matrix, -matrix @ self.offset)

    def is_identity(self) -> bool:
        """Whether it moves nothing by more than a ten thousandth of a pixel."""
        return bool(
            np.allclose(self.matrix, np.eye(2), atol=1e-7)
            and np.allclose(self.offset, 0, atol=1e-4)
        )


def pixels_to_layer(image: Any, plane: Plane, other: Any, view: ViewPoint) -> Affine2D:
    """Map pixels of an image plane to in-plane data coordinates of another layer.

    Goes through the world, so scale, translate, rotate, shear and affine of both layers count.
    """
    cut = slice_of(other, view)
    corners = plane.to_data([(0, 0), (1, 0), (0, 1)])
    found = []
    for corner in corners:
        world = np.asarray(view.point, dtype=float)
        world[-image.ndim :] = image.data_to_world(corner)
        found.append(np.asarray(other.world_to_data(world))[list(cut.axes)])
    matrix = np.column_stack([found[1] - found[0], found[2] - found[0]]).astype(np.float64)
    if abs(np.linalg.det(matrix)) < 1e-12:
        raise InputError(
            f"Layers '{image.name}' and '{other.name}' do not lie in one plane; "
            "choose a regions layer drawn on this image."
        )
    return Affine2D(matrix, np.asarray(found[0], dtype=np.float64))
