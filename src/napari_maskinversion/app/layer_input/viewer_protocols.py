"""What the application uses of napari's viewer and layers, which it does not import."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from ...images.lazy_plane import ArrayLike

if TYPE_CHECKING:
    import pandas as pd


class Layer(Protocol):
    """What every layer has."""

    name: str
    metadata: dict[str, Any]
    visible: bool

    @property
    def ndim(self) -> int:
        """Spatial dimensions."""

    def data_to_world(self, position: npt.ArrayLike, /) -> npt.ArrayLike:
        """World coordinates of data coordinates."""


class PixelLayer(Layer, Protocol):
    """What an Image or a Labels layer has."""

    @property
    def data(self) -> ArrayLike:
        """Its pixels; a `MultiscaleLayer` has several arrays."""


class MultiscaleLayer(Layer, Protocol):
    """What a layer with a pyramid has."""

    @property
    def data(self) -> Sequence[ArrayLike]:
        """Its pixels, the finest level first."""


def has_pixels(layer: Layer) -> TypeGuard[PixelLayer]:
    """Whether a layer is an image or labels: neither shapes nor points."""
    return not (hasattr(layer, "shape_type") or hasattr(layer, "symbol"))


def has_pyramid(layer: Layer) -> TypeGuard[MultiscaleLayer]:
    """Whether a layer has several arrays of its pixels."""
    return bool(getattr(layer, "multiscale", False))


class Colormap(Protocol):
    """The colours of an image layer."""

    def map(self, values: npt.NDArray[np.floating], /) -> npt.ArrayLike:
        """Return RGBA (N, 4) of values in 0..1; NaN has a colour of its own."""


class LayerSource(Protocol):
    """Where a layer comes from."""

    path: str | None


class ImageLayer(PixelLayer, Protocol):
    """What an Image layer has."""

    rgb: bool
    contrast_limits: Sequence[float]
    gamma: float
    opacity: float
    blending: str
    colormap: Colormap
    interpolation2d: str
    source: LayerSource


class RegionsLayer(Layer, Protocol):
    """What a layer of regions has: a Labels or a `ShapesLayer`."""

    features: pd.DataFrame
    mode: str


class ShapesEvent(Protocol):
    """What napari reports of shapes that changed."""

    action: str
    data_indices: Sequence[int]


class ShapesEmitter(Protocol):
    """Tells of changed shapes."""

    def connect(self, callback: Callable[[ShapesEvent], None], /) -> object:
        """Call a function, which is held weakly, after each change."""


class ShapesEvents(Protocol):
    """The emitters of a Shapes layer."""

    data: ShapesEmitter


class ShapesLayer(RegionsLayer, Protocol):
    """What a Shapes layer has."""

    feature_defaults: pd.DataFrame  # Of the next shape; one row
    shape_type: Sequence[str]
    edge_width: Sequence[float]
    selected_data: Collection[int]
    events: ShapesEvents

    @property
    def data(self) -> Sequence[npt.NDArray[np.floating]]:
        """The corners (N, ndim) of each shape."""


class Dims(Protocol):
    """The dimensions of a viewer."""

    displayed: Sequence[int]
    point: Sequence[float]
    axis_labels: Sequence[str]


class Canvas(Protocol):
    """What a viewer draws on."""

    background_color: Sequence[float]


class Viewer(Protocol):
    """What a viewer has."""

    dims: Dims
    canvas: Canvas

    @property
    def layers(self) -> Sequence[Layer]:
        """Its layers, the lowest first."""
