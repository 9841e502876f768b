"""The heatmap layer: one image at token resolution, lying where the image lies."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image
from napari.utils.colormaps import Colormap, ensure_colormap
from napari.utils.transforms import Affine

from .coordinates import Plane
from .layers import OURS

OPACITY = 0.7


def colormap() -> Colormap:
    """Turbo that fades out towards 0, so that the image stays as it is where nothing was seen."""
    levels = np.linspace(0, 1, 65)
    colors = np.array(ensure_colormap("turbo").map(levels))
    colors[:, 3] = np.clip(1.6 * levels, 0, 1)
    return Colormap(colors, name="heat", controls=np.linspace(0, 1, 65))


def heatmap_transform(image: Any, plane: Plane, grid: tuple[int, int]) -> dict[str, Any]:
    """Place a (grid_h, grid_w) map exactly over a plane of an image layer.

    One token covers ``f`` data pixels, so the scale grows by ``f`` and token 0 is centred on data
    point ``(f - 1) / 2``. The layer's affine is copied, hence the translation must come from its
    scale, rotate, shear and translate alone: with `data_to_world` the affine would act twice.
    """
    rows, columns = plane.cut.axes
    factor = np.ones(image.ndim)
    origin = np.asarray(plane.cut.index, dtype=float)
    for axis, pixels, step, tokens in zip(
        (rows, columns), plane.shape, plane.step, grid, strict=True
    ):
        factor[axis] = step * pixels / tokens
        origin[axis] = (factor[axis] - 1) / 2
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


def as_display(grid_map: npt.NDArray[Any], plane: Plane, ndim: int) -> npt.NDArray[np.float32]:
    """Stretch a token map to 0..1 and give it the image's number of dimensions.

    The viewer interpolates it linearly, which is how the heatmap proper is made.
    """
    low, high = float(grid_map.min()), float(grid_map.max())
    stretched = (grid_map - low) / (high - low) if high > low else np.zeros_like(grid_map)
    shape = [1] * ndim
    shape[plane.cut.axes[0]], shape[plane.cut.axes[1]] = grid_map.shape
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
        self._place: tuple[Any, ...] | None = None

    @property
    def layer(self) -> Image | None:
        """The layer, if it is in the viewer."""
        return self._layer if self._layer is not None and self._present() else None

    def show(self, grid_map: npt.NDArray[Any], image: Any, plane: Plane) -> None:
        """Show a map over a plane of an image layer; active layer and its mode stay as they are.

        Parameters
        ----------
        grid_map : ndarray, shape (grid_h, grid_w)
        image : napari.layers.Image
            In the viewer.
        plane : Plane
            Which the map belongs to.
        """
        data = as_display(grid_map, plane, image.ndim)
        # Where its corners lie in the world: the user may have moved the image since.
        corners = np.vstack([np.zeros(image.ndim), np.eye(image.ndim)])
        world = np.array([image.data_to_world(corner) for corner in corners])
        place = (id(image), plane, grid_map.shape, world.tobytes())
        layer = self.layer
        if layer is not None and self._place == place:
            layer.data = data
            return
        self.remove()
        layer = Image(
            data,
            name=f"heatmap: {image.name}",
            rgb=False,
            contrast_limits=(0, 1),
            colormap=colormap(),
            blending="translucent_no_depth" if image.ndim > 2 else "translucent",
            opacity=OPACITY,
            interpolation2d="linear",
            metadata={OURS: "heatmap"},
            **heatmap_transform(image, plane, (grid_map.shape[0], grid_map.shape[1])),
        )
        self._insert(layer, image)
        self._layer, self._place = layer, place

    def blank(self) -> None:
        """Show nothing for now; to take the layer out and in again would hold the window up."""
        layer = self.layer
        if layer is not None:
            layer.data = np.zeros_like(layer.data)

    def remove(self) -> None:
        """Take the layer out of the viewer."""
        if self.layer is not None:
            selected, active = self._selection()
            self._viewer.layers.remove(self._layer)
            self._restore(selected, active)
        self._layer = self._place = None

    def forget(self) -> None:
        """Leave the layer to the user; a later map gets a layer of its own."""
        self._layer = self._place = None

    def _present(self) -> bool:
        return self._layer in self._viewer.layers

    def _insert(self, layer: Image, image: Any) -> None:
        """Put it right above the image, under regions that are being drawn."""
        layers = self._viewer.layers
        selected, active = self._selection()
        layers.insert(layers.index(image) + 1, layer)
        self._restore(selected, active)

    def _selection(self) -> tuple[list[Any], Any]:
        selection = self._viewer.layers.selection
        active = selection.active
        return list(selection), (active, getattr(active, "mode", None))

    def _restore(self, selected: list[Any], active: Any) -> None:
        layers = self._viewer.layers
        layer, mode = active
        layers.selection.clear()
        layers.selection.update(item for item in selected if item in layers)
        if layer is not None and layer in layers:
            layers.selection.active = layer
            if mode is not None and layer.mode != mode:
                layer.mode = mode
