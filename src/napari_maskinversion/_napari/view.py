"""Moves the view to what is selected, and only if it is not in view already."""

from __future__ import annotations

from typing import Any

import numpy as np

from .coordinates import Plane

Box = tuple[int, int, int, int]


def bring_into_view(viewer: Any, image: Any, plane: Plane, bbox: Box) -> None:
    """Show a region: turn to its plane, and centre the camera on it if it is off-screen.

    Parameters
    ----------
    viewer : napari.Viewer
    image : napari.layers.Image
        In the viewer.
    plane : Plane
        Of the image, which the box belongs to.
    bbox : tuple of int
        ``(y0, x0, y1, x1)`` in pixels of the plane, end exclusive.
    """
    y0, x0, y1, x1 = bbox
    centre = plane.to_data([((y0 + y1 - 1) / 2, (x0 + x1 - 1) / 2)])[0]
    world = np.asarray(image.data_to_world(centre))
    shift = viewer.dims.ndim - image.ndim
    off_plane = [axis for axis in range(image.ndim) if axis not in plane.cut.axes]
    shown = np.round(image.world_to_data(viewer.dims.point)).astype(int)
    if any(shown[axis] != plane.cut.index[axis] for axis in off_plane):
        for axis in off_plane:
            viewer.dims.set_point(axis + shift, float(world[axis]))
    if not _visible(image, plane, centre):
        # napari 0.9 moved the camera.
        camera = viewer.scene.camera if hasattr(viewer, "scene") else viewer.camera
        centre_now = list(camera.center)
        centre_now[-2:] = [float(world[axis]) for axis in plane.cut.axes]
        camera.center = tuple(centre_now)


def _visible(image: Any, plane: Plane, centre: Any) -> bool:
    corners = np.asarray(image.corner_pixels, dtype=float)
    if image.multiscale:
        corners = corners * image.downsample_factors[image.data_level]
    return all(corners[0, axis] <= centre[axis] <= corners[1, axis] for axis in plane.cut.axes)
