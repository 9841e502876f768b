"""Placement of our layers: over a box of an image's plane, among the user's layers."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt
from napari.layers import Image, Labels, Layer
from napari.utils.transforms import Affine

from ...app.layer_input.coordinates import Plane
from ...app.layer_input.layer_facts import OURS
from ...images.windows import FloatBox

if TYPE_CHECKING:
    from napari.components import ViewerModel


# Of layers of regions that we make: the heatmap lies below them, so that one can paint.
REGIONS_OPACITY: Final = 0.35
OwnLayer = TypeVar("OwnLayer", bound=Layer)


class LayerHolder(Generic[OwnLayer]):
    """Holds one of our layers, which is created when first needed."""

    kind = ""  # the layer's mark; one that a closed panel has left is used again

    def __init__(self, viewer: ViewerModel) -> None:
        self._viewer = viewer
        self._layer: OwnLayer | None = None
        self._image: Image | None = None

    @property
    def layer(self) -> OwnLayer | None:
        """The layer, if it is in the viewer."""
        return self._layer if self._layer in self._viewer.layers else None

    def fitting(self, image: Image) -> OwnLayer | None:
        """Return the layer if it was made for an image with these dimensions; else remove it."""
        if self.layer is None:
            self._layer, self._image = self._left_over(image), image
        layer = self.layer
        if layer is not None and layer.ndim == image.ndim and self._take_over(layer, image):
            if not layer.name.endswith(f": {image.name}"):  # the image was renamed
                layer.name = f"{layer.name.partition(': ')[0]}: {image.name}"
            return layer
        self.remove()
        return None

    def _take_over(self, layer: OwnLayer, image: Image) -> bool:
        """Whether the layer belongs to an image, or can be made to."""
        return self._image is image

    def _left_over(self, image: Image) -> OwnLayer | None:
        for layer in self._viewer.layers:
            ours = self.kind and layer.metadata.get(OURS) == self.kind
            if ours and layer.name.endswith(f": {image.name}"):
                return cast(OwnLayer, layer)
        return None

    def remove(self) -> None:
        """Remove the layer from the viewer."""
        layer = self.layer
        if layer is not None:
            with selection_kept(self._viewer):
                remove_layers(self._viewer, (layer,))
        self.forget()

    def forget(self) -> None:
        """Leave the layer to the user; a new one is made when it is needed."""
        self._layer = self._image = None

    def insert(self, layer: OwnLayer, image: Image, above: Layer | None = None) -> None:
        """Add a layer directly above an image and, if given, above another layer."""
        layers = self._viewer.layers
        place = layers.index(image) + 1
        if above is not None:
            place = max(place, layers.index(above) + 1)
        with selection_kept(self._viewer):
            layers.insert(place, layer)
        self._layer, self._image = layer, image

    def follow(self, placed: dict[str, Any]) -> None:
        """Set the transform of the layer where it differs."""
        for name, value in placed.items():
            if name != "axis_labels" and not same_transform(getattr(self._layer, name), value):
                setattr(self._layer, name, value)


def box_transform(
    image: Image, plane: Plane, box: FloatBox, grid: tuple[int, int]
) -> dict[str, Any]:
    """Place a (grid_h, grid_w) map over a box of a plane of an image layer."""
    factor = np.ones(image.ndim)
    origin = np.asarray(plane.cut.index, dtype=float)
    for place, axis in enumerate(plane.cut.axes):
        factor[axis] = (box[place + 2] - box[place]) / grid[place]
        origin[axis] = box[place] + (factor[axis] - 1) / 2
    data_to_physical = Affine(
        scale=image.scale, translate=image.translate, rotate=image.rotate, shear=image.shear
    )
    return {
        "scale": np.asarray(image.scale) * factor,
        "translate": np.asarray(data_to_physical(origin)),
        "rotate": image.rotate,
        "shear": image.shear,
        "affine": image.affine,
        "units": image.units,
        "axis_labels": image.axis_labels,
    }


def plane_transform(image: Image, plane: Plane) -> dict[str, Any]:
    """The image's transform, for layers in its data coordinates."""
    placed = box_transform(image, plane, (0.0, 0.0, 1.0, 1.0), (1, 1))
    return placed | {"scale": np.asarray(image.scale), "translate": np.asarray(image.translate)}


def same_transform(value: Affine | npt.ArrayLike, other: Affine | npt.ArrayLike) -> bool:
    """Whether two values of a layer's transform are the same."""
    try:
        return bool(np.array_equal(_matrix_of(value), _matrix_of(other)))
    except (TypeError, ValueError):
        return False


def _matrix_of(value: Affine | npt.ArrayLike) -> npt.ArrayLike:
    return value.affine_matrix if isinstance(value, Affine) else value


def place_of(image: Image) -> dict[str, Any]:
    """Return the attributes that place a layer in the world."""
    names = ("scale", "translate", "rotate", "shear", "affine", "units", "axis_labels")
    return {name: getattr(image, name) for name in names if hasattr(image, name)}


def remove_layers(viewer: ViewerModel, layers: Sequence[Layer]) -> None:
    """Remove those of some layers of the panel that are in the viewer, with no pause.

    napari searches all objects of the process for garbage at each removal, which takes half a
    second where torch is loaded; what it would find is small if the pixels are gone before.
    """
    gc.freeze()  # moves lists of objects, and takes no time
    try:
        for layer in layers:
            if layer in viewer.layers:
                if isinstance(layer, (Image, Labels)):
                    _empty(layer)
                viewer.layers.remove(layer)
    finally:
        gc.unfreeze()


def _empty(layer: Image | Labels) -> None:
    """Let a layer, and the canvas, go of its pixels."""
    levels = layer.data if layer.multiscale else [layer.data]
    one_pixel = (1,) * layer.ndim
    small = [np.zeros(one_pixel + level.shape[layer.ndim :], level.dtype) for level in levels]
    with layer.events.blocker_all():  # nobody has edited it
        layer.data = small if layer.multiscale else small[0]
    layer.events.set_data()  # only the canvas listens


@contextmanager
def selection_kept(viewer: ViewerModel) -> Iterator[None]:
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
