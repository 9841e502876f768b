"""From layers to arrays: what a run needs, copied from the layers before it starts.

The functions here run on the main thread and only copy; the objects they return do the work
(`read`, `regions`) and hold no reference to a layer, so a worker thread may use them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from ..core.errors import InputError
from ..core.regions import Region, Regions
from .coordinates import Affine2D, Plane, ViewPoint, pixels_to_layer, plane_of, slice_of
from .rasterise import Shape, rasterise

# Marks layers made by this plugin, so that they are not offered as input.
OURS: Final = "napari-maskinversion"
# Counting labels of a larger plane would be felt on every brush stroke.
_COUNTED_PIXELS: Final = 20_000_000


def is_ours(layer: Any) -> bool:
    """Whether a layer was made by this plugin."""
    return OURS in getattr(layer, "metadata", {})


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanePixels:
    """Pixels of one image plane.

    Parameters
    ----------
    plane : Plane
    raw : callable
        Gives the plane's pixels: a copy of an array, or lazy data that are read only now.
    rgb : bool
    limits : tuple of float
        Contrast limits of a single-channel layer.
    """

    plane: Plane
    raw: Callable[[], npt.NDArray[Any]]
    rgb: bool
    limits: tuple[float, float]

    def read(self) -> npt.NDArray[Any]:
        """Pixels as the viewer shows them: (H, W, 3), or (H, W) float32 in 0..1 if grey."""
        pixels = self.raw()
        if self.rgb:
            pixels = pixels[..., :3]
            if pixels.dtype.kind == "f":
                pixels = np.clip(pixels, 0, 1)  # as the viewer does; NaN stays and is refused
            return pixels
        low, high = self.limits
        span = high - low if high > low else 1.0
        grey = (pixels.astype(np.float32) - low) / span
        return np.asarray(np.clip(grey, 0, 1), dtype=np.float32)


def copy_image(layer: Any, view: ViewPoint) -> PlanePixels:
    """Take the plane of an image layer that is shown.

    Raises
    ------
    InputError
        If the layer does not have the plane shown.
    """
    plane = plane_of(layer, view)
    data = layer.data[plane.level] if layer.multiscale else layer.data
    pixels = plane.cut.of(data, data.shape)
    if isinstance(pixels, np.ndarray):
        pixels = pixels.copy()
    low, high = (0.0, 1.0) if layer.rgb else layer.contrast_limits
    return PlanePixels(
        plane=plane,
        raw=lambda: np.asarray(pixels),
        rgb=bool(layer.rgb),
        limits=(float(low), float(high)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsCopy:
    """The plane of a Labels layer, and how the image's pixels lie on it."""

    raw: Callable[[], npt.NDArray[Any]]
    to_labels: Affine2D
    plane_shape: tuple[int, int]

    def regions(self) -> Regions:
        """One region per label, on the image's pixels (nearest label pixel through the world).

        A label too small for any pixel of the image to fall on it becomes the pixels nearest to
        it, so none that lies on the image is lost.
        """
        labels = self.raw()
        if self.to_labels.is_identity() and labels.shape == self.plane_shape:
            return Regions.from_labels(labels)
        seen = resample_nearest(labels, self.to_labels, self.plane_shape)
        regions = Regions.from_labels(seen)
        missed = np.setdiff1d(pd.unique(labels.ravel()), [0, *regions.ids])
        if not len(missed):
            return regions
        found = [*regions, *_nearest_pixels(labels, missed, self.to_labels, self.plane_shape)]
        return Regions(self.plane_shape, sorted(found, key=lambda region: region.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapesCopy:
    """The shapes of one plane, and how the image's pixels lie on it."""

    shapes: tuple[Shape, ...]
    to_shapes: Affine2D
    plane_shape: tuple[int, int]

    def regions(self) -> Regions:
        """One region per shape, clipped to the image."""
        return rasterise(self.shapes, self.to_shapes, self.plane_shape)


def copy_regions(layer: Any, image: Any, plane: Plane, view: ViewPoint) -> LabelsCopy | ShapesCopy:
    """Take the regions that a Labels or Shapes layer has on the plane shown.

    Raises
    ------
    InputError
        If the two layers do not lie in one plane, or the layer does not have the plane shown.
    """
    to_layer = pixels_to_layer(image, plane, layer, view)
    if _is_shapes(layer):
        return ShapesCopy(
            shapes=shapes_on_plane(layer, view), to_shapes=to_layer, plane_shape=plane.shape
        )
    pixels = _labels_plane(layer, view)
    if isinstance(pixels, np.ndarray):
        pixels = pixels.copy()
    return LabelsCopy(raw=lambda: np.asarray(pixels), to_labels=to_layer, plane_shape=plane.shape)


def count_regions(layer: Any, view: ViewPoint) -> int | None:
    """Count the regions on the plane shown; None where counting would take too long.

    Raises
    ------
    InputError
        If the layer does not have the plane shown.
    """
    if _is_shapes(layer):
        return len(shapes_on_plane(layer, view))
    pixels = _labels_plane(layer, view)
    if not isinstance(pixels, np.ndarray) or pixels.size > _COUNTED_PIXELS:
        return None
    # By hash table: many times quicker than sorting all pixels.
    return int(np.count_nonzero(pd.unique(pixels.ravel())))


def shapes_on_plane(layer: Any, view: ViewPoint) -> tuple[Shape, ...]:
    """Take the shapes that lie in the plane shown (not those that cross it), in row order."""
    cut = slice_of(layer, view)
    others = [axis for axis in range(layer.ndim) if axis not in cut.axes]
    index = np.asarray(cut.index)[others]
    found = []
    rows = zip(layer.data, layer.shape_type, layer.edge_width, strict=True)
    for row, (vertices, kind, width) in enumerate(rows):
        corners = np.asarray(vertices, dtype=float)
        # Rounded as napari does when it decides what to draw.
        if others and not np.all(np.round(corners[:, others]) == index):
            continue
        found.append(
            Shape(
                id=row,
                kind=str(kind),
                vertices=corners[:, list(cut.axes)].copy(),
                width=float(width),
            )
        )
    return tuple(found)


def resample_nearest(
    labels: npt.NDArray[Any], to_labels: Affine2D, shape: tuple[int, int]
) -> npt.NDArray[Any]:
    """Look up, for each pixel of a plane, the label at its place; 0 outside the label image.

    Parameters
    ----------
    labels : ndarray, shape (h, w)
    to_labels : Affine2D
        From the plane's pixels to pixels of `labels`.
    shape : tuple of int
        Pixels (H, W) of the plane.
    """
    out = np.zeros(shape, dtype=labels.dtype)
    columns = np.arange(shape[1])
    matrix, offset = to_labels.matrix, to_labels.offset
    # In bands, so that a large plane needs no coordinate array of its size.
    for start in range(0, shape[0], 256):
        rows = np.arange(start, min(start + 256, shape[0]))[:, None]
        # Half a pixel goes up, always: rounding to even would make blocks of uneven size.
        y, x = (
            np.floor(matrix[i, 0] * rows + matrix[i, 1] * columns + offset[i] + 0.5 + 1e-6).astype(
                np.intp
            )
            for i in (0, 1)
        )
        inside = (y >= 0) & (y < labels.shape[0]) & (x >= 0) & (x < labels.shape[1])
        out[start : start + len(rows)][inside] = labels[y[inside], x[inside]]
    return out


def _nearest_pixels(
    labels: npt.NDArray[Any],
    values: npt.NDArray[Any],
    to_labels: Affine2D,
    shape: tuple[int, int],
) -> list[Region]:
    """Regions of the pixels nearest to each label's own; none for labels outside the plane."""
    places = np.argwhere(np.isin(labels, values))
    names = labels[tuple(places.T)]
    pixels = np.round(to_labels.inverse(places)).astype(int)
    inside = ((pixels >= 0) & (pixels < shape)).all(axis=1)
    names, pixels = names[inside], pixels[inside]
    order = np.argsort(names, kind="stable")
    names, pixels = names[order], pixels[order]
    found = []
    for part in np.split(np.arange(len(names)), np.flatnonzero(np.diff(names)) + 1):
        if not len(part):
            continue
        (y0, x0), (y1, x1) = pixels[part].min(axis=0), pixels[part].max(axis=0) + 1
        mask = np.zeros((y1 - y0, x1 - x0), dtype=bool)
        mask[tuple((pixels[part] - (y0, x0)).T)] = True
        box = (int(y0), int(x0), int(y1), int(x1))
        found.append(Region(int(names[part[0]]), box, mask))
    return found


def vocabulary_of(*layers: Any) -> list[str]:
    """Labels that a layer brings with it (our samples do), of the first layer that has some."""
    for layer in layers:
        words = getattr(layer, "metadata", {}).get("vocabulary")
        if words:
            return [str(word) for word in words]
    return []


def _is_shapes(layer: Any) -> bool:
    return hasattr(layer, "shape_type")


def _labels_plane(layer: Any, view: ViewPoint) -> Any:
    cut = slice_of(layer, view)
    data = layer.data[0] if layer.multiscale else layer.data
    if data.ndim != layer.ndim:
        raise InputError(f"Layer '{layer.name}' holds no label image.")
    return cut.of(data, data.shape)
