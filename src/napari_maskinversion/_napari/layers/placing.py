"""Placement of our layers: over a box of an image's plane, among the user's layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from napari.utils.transforms import Affine

from ...images.windows import FloatBox
from .coordinates import Plane


def box_transform(image: Any, plane: Plane, box: FloatBox, grid: tuple[int, int]) -> dict[str, Any]:
    """Place a (grid_h, grid_w) map over a box of a plane of an image layer.

    Parameters
    ----------
    image : napari.layers.Image
    plane : Plane
    box : tuple of float
        ``(y0, x0, y1, x1)`` in pixels of the plane, counted at pixel edges.
    grid : tuple of int

    Notes
    -----
    One token covers ``f`` data pixels, so the scale grows by ``f`` and token 0 is centred on data
    point ``y0 + (f - 1) / 2``. The layer's affine is copied, hence the translation must come from
    its scale, rotate, shear and translate alone: with `data_to_world` the affine would act twice.
    """
    factor = np.ones(image.ndim)
    origin = np.asarray(plane.cut.index, dtype=float)
    for place, axis in enumerate(plane.cut.axes):
        factor[axis] = (box[place + 2] - box[place]) / grid[place]
        origin[axis] = box[place] + (factor[axis] - 1) / 2
    own = Affine(
        scale=image.scale, translate=image.translate, rotate=image.rotate, shear=image.shear
    )
    return {
        "scale": np.asarray(image.scale) * factor,
        "translate": np.asarray(own(origin)),
        "rotate": image.rotate,
        "shear": image.shear,
        "affine": image.affine,
        "units": image.units,
        "axis_labels": image.axis_labels,
    }


def plane_transform(image: Any, plane: Plane) -> dict[str, Any]:
    """The image's transform, for layers in its data coordinates."""
    placed = box_transform(image, plane, (0.0, 0.0, 1.0, 1.0), (1, 1))
    return placed | {"scale": np.asarray(image.scale), "translate": np.asarray(image.translate)}


def same_transform(one: Any, other: Any) -> bool:
    """Whether two values of a layer's transform are the same."""
    matrices = [getattr(value, "affine_matrix", value) for value in (one, other)]
    try:
        return bool(np.array_equal(*matrices))
    except (TypeError, ValueError):
        return False


@contextmanager
def selection_kept(viewer: Any) -> Iterator[None]:
    """Keep layer selection, active layer and mode."""
    layers = viewer.layers
    selected, active = list(layers.selection), layers.selection.active
    mode = getattr(active, "mode", None)
    yield
    layers.selection.clear()
    layers.selection.update(item for item in selected if item in layers)
    if active is not None and active in layers:
        layers.selection.active = active
        if mode is not None and active.mode != mode:
            active.mode = mode


def insert_above(viewer: Any, layer: Any, below: Any) -> None:
    """Place our layer directly above another one, below regions being drawn."""
    with selection_kept(viewer):
        viewer.layers.insert(viewer.layers.index(below) + 1, layer)


def take_out(viewer: Any, layer: Any) -> None:
    """Remove one of our layers."""
    with selection_kept(viewer):
        viewer.layers.remove(layer)
