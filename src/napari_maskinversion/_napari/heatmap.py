"""The heatmap layer: one map at token resolution, lying where the model saw it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image
from napari.utils.colormaps import Colormap, ensure_colormap

from ..windows import FloatBox
from .coordinates import Plane
from .layers import OURS
from .placing import box_transform, insert_above, take_out

OPACITY = 0.7


def colormap() -> Colormap:
    """Turbo that fades out towards 0, so that the image stays as it is where nothing was seen."""
    levels = np.linspace(0, 1, 65)
    colors = np.array(ensure_colormap("turbo").map(levels))
    colors[:, 3] = np.clip(1.6 * levels, 0, 1)
    return Colormap(colors, name="heat", controls=np.linspace(0, 1, 65))


def as_display(grid_map: npt.NDArray[Any], plane: Plane, ndim: int) -> npt.NDArray[np.float32]:
    """Stretch a token map to 0..1 and give it the image's number of dimensions.

    The viewer interpolates it linearly, which is how the heatmap proper is made.
    """
    low, high = float(grid_map.min()), float(grid_map.max())
    stretched = (grid_map - low) / (high - low) if high > low else np.zeros_like(grid_map)
    rows, columns = plane.cut.axes
    if rows > columns:  # the viewer shows the axes the other way round than the array has them
        stretched = stretched.T
    shape = [1] * ndim
    shape[min(rows, columns)], shape[max(rows, columns)] = stretched.shape
    return np.asarray(stretched, dtype=np.float32).reshape(shape)


class HeatmapLayer:
    """Shows one map at a time in one layer of the viewer; makes the layer when first needed.

    Parameters
    ----------
    viewer : napari.Viewer
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._layer: Image | None = None
        self._image: Any = None
        self._place: tuple[Any, ...] | None = None

    @property
    def layer(self) -> Image | None:
        """The layer, if it is in the viewer."""
        return self._layer if self._layer is not None and self._present() else None

    def show(
        self, grid_map: npt.NDArray[Any], image: Any, plane: Plane, box: FloatBox | None = None
    ) -> None:
        """Show a map over a box of an image's plane; active layer and its mode stay as they are.

        Parameters
        ----------
        grid_map : ndarray, shape (grid_h, grid_w)
        image : napari.layers.Image
            In the viewer.
        plane : Plane
            Which the map belongs to.
        box : tuple of float
            ``(y0, x0, y1, x1)`` in pixels of the plane, counted at their edges; the whole plane
            unless given.
        """
        height, width = plane.shape
        box = box or (0.0, 0.0, float(height), float(width))
        data = as_display(grid_map, plane, image.ndim)
        placed = box_transform(image, plane, box, (grid_map.shape[0], grid_map.shape[1]))
        # Where it lies: the user may have moved the image since.
        place = tuple(
            np.asarray(getattr(placed[name], "affine_matrix", placed[name])).tobytes()
            for name in ("scale", "translate", "rotate", "shear", "affine")
        )
        layer = self.layer
        if layer is None or self._image is not image or layer.ndim != image.ndim:
            self.remove()
            layer = self._make(data, image, placed)
            insert_above(self._viewer, layer, image)
            self._layer, self._image = layer, image
        else:
            # To take the layer out and in again would hold the window up.
            if self._place is None or self._place[:1] + self._place[2:] != place[:1] + place[2:]:
                for name in ("scale", "rotate", "shear", "affine", "units"):
                    setattr(layer, name, placed[name])
            if self._place != place:
                layer.translate = placed["translate"]
            layer.data = data
        self._place = place

    def _make(self, data: npt.NDArray[np.float32], image: Any, placed: dict[str, Any]) -> Image:
        return Image(
            data,
            name=f"heatmap: {image.name}",
            rgb=False,
            contrast_limits=(0, 1),
            colormap=colormap(),
            blending="translucent_no_depth" if image.ndim > 2 else "translucent",
            opacity=OPACITY,
            interpolation2d="linear",
            metadata={OURS: "heatmap"},
            **placed,
        )

    def blank(self) -> None:
        """Show nothing for now."""
        layer = self.layer
        if layer is not None:
            layer.data = np.zeros_like(layer.data)

    def remove(self) -> None:
        """Take the layer out of the viewer."""
        if self.layer is not None:
            take_out(self._viewer, self._layer)
        self._layer = self._image = self._place = None

    def forget(self) -> None:
        """Leave the layer to the user; a later map gets a layer of its own."""
        self._layer = self._image = self._place = None

    def _present(self) -> bool:
        return self._layer in self._viewer.layers
