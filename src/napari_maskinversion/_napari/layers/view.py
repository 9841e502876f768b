"""Moves the view to the selected region, if it is not in view."""

from __future__ import annotations

from typing import Any

import numpy as np

from .coordinates import Grid, Plane, ViewPoint, slice_of

Box = tuple[int, int, int, int]


def bring_into_view(viewer: Any, image: Any, plane: Plane, bbox: Box) -> None:
    """Show a region: turn to its plane, and centre the camera on it if it is off-screen."""
    view = ViewPoint.of(viewer)
    grid = Grid.of(image, view)
    y0, x0, y1, x1 = bbox
    centre = plane.to_data([((y0 + y1 - 1) / 2, (x0 + x1 - 1) / 2)])[0]
    world = grid.to_world(centre)
    shift = viewer.dims.ndim - image.ndim
    others = plane.cut.others
    shown = slice_of(grid, view)
    if shown.axes != plane.cut.axes:
        return  # the viewer was rotated: there is no such plane to show
    if any(shown.index[axis] != plane.cut.index[axis] for axis in others):
        axes = [axis + shift for axis in others]
        viewer.dims.set_point(axes, [float(world[axis]) for axis in others])
    if not _visible(image, plane, centre):
        camera = viewer.scene.camera
        centre_now = list(camera.center)
        centre_now[-2:] = [float(world[axis]) for axis in plane.cut.axes]
        camera.center = tuple(centre_now)


def _visible(image: Any, plane: Plane, centre: Any) -> bool:
    corners = np.asarray(image.corner_pixels, dtype=float)
    if image.multiscale:
        corners = corners * image.downsample_factors[image.data_level]
    return all(corners[0, axis] <= centre[axis] <= corners[1, axis] for axis in plane.cut.axes)
