"""The outline of the window of the selected region."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from napari.layers import Shapes

from ...images.windows import FloatBox
from .coordinates import Plane
from .layers import OURS
from .placing import LayerHolder, plane_transform

COLOR = "#ffd400"


class OutlineLayer(LayerHolder[Shapes]):
    """Shows one rectangle in a Shapes layer."""

    kind = "window"

    def show(self, image: Any, plane: Plane, box: FloatBox) -> None:
        """Draw a box of an image's plane."""
        y0, x0, y1, x1 = (value - 0.5 for value in box)
        corners = plane.to_data([(y0, x0), (y0, x1), (y1, x1), (y1, x0)])
        width = max(y1 - y0, x1 - x0) / 100
        layer = self.fitting(image)
        if layer is None:
            self.insert(self._make(image, plane, corners, width), image)
            return
        self.follow(plane_transform(image, plane))
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
