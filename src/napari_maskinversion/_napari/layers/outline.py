"""The outline of the window of the selected region."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from napari.layers import Shapes

from ...images.windows import FloatBox
from .coordinates import Plane
from .layers import OURS
from .placing import insert_above, plane_transform, same_transform, take_out

COLOR = "#ffd400"


class OutlineLayer:
    """Shows one rectangle in a Shapes layer, created when first needed.

    Parameters
    ----------
    viewer : napari.Viewer
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._layer: Shapes | None = None
        self._image: Any = None

    @property
    def layer(self) -> Shapes | None:
        """The layer, if it is in the viewer."""
        here = self._layer is not None and self._layer in self._viewer.layers
        return self._layer if here else None

    def show(self, image: Any, plane: Plane, box: FloatBox) -> None:
        """Draw a box of an image's plane.

        Parameters
        ----------
        image : napari.layers.Image
            In the viewer.
        plane : Plane
        box : tuple of float
            ``(y0, x0, y1, x1)`` in pixels of the plane, counted at their edges.
        """
        y0, x0, y1, x1 = (value - 0.5 for value in box)
        corners = plane.to_data([(y0, x0), (y0, x1), (y1, x1), (y1, x0)])
        width = max(y1 - y0, x1 - x0) / 100
        layer = self.layer
        if layer is None or self._image is not image or layer.ndim != image.ndim:
            self.remove()
            layer = self._make(image, plane, corners, width)
            insert_above(self._viewer, layer, image)
            self._layer, self._image = layer, image
            return
        for name, value in plane_transform(image, plane).items():
            if name != "axis_labels" and not same_transform(getattr(layer, name), value):
                setattr(layer, name, value)
        layer.data = [corners]
        layer.edge_width = [width]

    def _make(self, image: Any, plane: Plane, corners: npt.NDArray[Any], width: float) -> Shapes:
        layer = Shapes(
            [corners],
            # napari's rectangles are flat along the first axes; a polygon may lie on any plane.
            shape_type="polygon",
            name=f"window: {image.name}",
            ndim=image.ndim,
            edge_color=COLOR,
            face_color="transparent",
            edge_width=width,
            metadata={OURS: "window"},
            **plane_transform(image, plane),
        )
        layer.editable = False
        return layer

    def remove(self) -> None:
        """Remove the layer from the viewer."""
        if self.layer is not None:
            take_out(self._viewer, self._layer)
        self._layer = self._image = None

    def forget(self) -> None:
        """Leave the layer to the user."""
        self._layer = self._image = None
