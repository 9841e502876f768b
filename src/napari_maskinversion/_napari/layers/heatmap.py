"""The heatmap layer: one heatmap at a time, placed where the model saw it.

It holds what `Results.window_heatmap` returns and files hold, at the pixels of the model's input;
the viewer interpolates it to the screen as `engine.explain.interpolation` does to other pixels.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from napari.layers import Image
from napari.utils.colormaps import Colormap, ensure_colormap
from napari.utils.colormaps.standardize_color import transform_color

from ...app.layer_input.coordinates import Plane
from ...app.layer_input.layer_facts import OURS
from ...base.preferences import load
from ...base.regions import Region
from ...engine.explain.interpolation import LinearWeights, interpolated, weights_at
from ...images.windows import FloatBox
from ...regions.annotations.annotation import binary_mask
from .placing import LayerHolder, box_transform, selection_kept

FloatArray = npt.NDArray[np.float32]
OPACITY: Final = 0.7
DIMMED: Final = 0.35  # while regions are reviewed: the object has to be seen
_INSIDE: Final = 128  # samples along each side of a region that a map is cut off at
_MOST_SHOWN: Final = 1 << 22  # pixels of a heatmap
_NO_DIFFERENCE: Final = 1e-12  # two heatmaps that differ less are equal
# Distinguishable with common colour blindness, and by lightness.
MORE_COLOR: Final = "#f5a000"
LESS_COLOR: Final = "#2f86e0"


def colormap() -> Colormap:
    """The preferred colours, transparent towards 0, where the image shows."""
    levels = np.linspace(0, 1, 65)
    colors = np.array(ensure_colormap(load().heatmap).map(levels))
    colors[:, 3] = np.clip(1.6 * levels, 0, 1)
    return Colormap(colors, name="heat", controls=np.linspace(0, 1, 65))


def signed_colormap() -> Colormap:
    """One colour above the middle and one below, transparent at the middle."""
    levels = np.linspace(-1, 1, 65)
    sides = transform_color([LESS_COLOR, MORE_COLOR])
    colors = np.where(levels[:, None] < 0, sides[0], sides[1])
    colors[:, 3] = np.clip(1.6 * np.abs(levels), 0, 1)
    return Colormap(colors, name="difference", controls=np.linspace(0, 1, 65))


def around_middle(difference: FloatArray) -> FloatArray:
    """Scale a difference of heatmaps to 0..1, with its 0 in the middle."""
    furthest = max(float(np.abs(difference).max()), _NO_DIFFERENCE)
    return np.asarray(0.5 + difference / (2 * furthest), dtype=np.float32)


def map_in_region(heat: FloatArray, box: FloatBox, region: Region) -> FloatArray:
    """Return a heatmap over the box of a region, 0 outside its mask.

    Shapes: heat (h, w), which spans ``box``.
    """
    mask = binary_mask(region)
    shares = (np.arange(_INSIDE) + 0.5) / _INSIDE
    weights: list[LinearWeights] = []
    for axis in (0, 1):
        start, end = region.bbox[axis], region.bbox[axis + 2]
        centres = start + shares * (end - start)
        pixel = (box[axis + 2] - box[axis]) / heat.shape[axis]
        weights.append(weights_at((centres - box[axis]) / pixel - 0.5, heat.shape[axis]))
        mask = mask.take((shares * (end - start)).astype(np.intp), axis)
    rows, columns = weights
    return np.where(mask, interpolated(heat, rows, columns), np.float32(0))


def shown_size(input_size: tuple[int, int]) -> tuple[int, int]:
    """Return the pixels (h, w) to show of a model's input: all, unless no screen has so many.

    A damaged file may claim an input that is larger than the memory.
    """
    height, width = input_size
    share = min(1.0, math.sqrt(_MOST_SHOWN / (height * width)))
    return max(1, int(height * share)), max(1, int(width * share))


def as_layer_data(values: FloatArray, plane: Plane, ndim: int) -> FloatArray:
    """Return a heatmap with the image's number of dimensions."""
    rows, columns = plane.cut.axes
    if rows > columns:  # the viewer shows the axes in reverse order
        values = values.T
    shape = [1] * ndim
    shape[min(rows, columns)], shape[max(rows, columns)] = values.shape
    return values.reshape(shape)


class HeatmapLayer(LayerHolder[Image]):
    """Shows one map at a time in one layer."""

    kind = "heatmap"
    _place: tuple[bytes, ...] | None = None
    _signed = False
    _dimmed = False

    def dim(self, on: bool) -> None:
        """Show maps paler, or as usual; an opacity that the user has chosen stays."""
        before, self._dimmed = self._opacity, on
        layer = self.layer
        if layer is not None and layer.opacity == before:
            layer.opacity = self._opacity

    @property
    def _opacity(self) -> float:
        return DIMMED if self._dimmed else OPACITY

    def show(
        self,
        heat: FloatArray,
        image: Image,
        plane: Plane,
        box: FloatBox | None = None,
        *,
        signed: bool = False,
        region: Region | None = None,
    ) -> None:
        """Show a heatmap over a box of an image's plane; active layer and mode stay.

        It is cut off at the border of a ``region`` if one is given; ``signed`` shows a difference.

        Shapes: heat (h, w).
        """
        height, width = plane.shape
        box = box or (0.0, 0.0, float(height), float(width))
        values = around_middle(heat) if signed else heat
        if region is not None:
            values = map_in_region(values, box, region)
            y0, x0, y1, x1 = region.bbox
            box = (float(y0), float(x0), float(y1), float(x1))
        data = as_layer_data(values, plane, image.ndim)
        placed = box_transform(image, plane, box, (values.shape[0], values.shape[1]))
        # Place it: the user may have moved the image.
        place = tuple(
            np.asarray(getattr(placed[name], "affine_matrix", placed[name])).tobytes()
            for name in ("scale", "translate", "rotate", "shear", "affine")
        )
        layer = self.fitting(image)
        if layer is None:
            layer, self._signed = self._make(data, image, placed), False
            self.insert(layer, image)
        else:
            # Removing and adding the layer again would block the window.
            if self._place != place:
                self.follow(placed)
            if layer.data.shape == data.shape:
                self._fill(layer, data)
            else:
                layer.data = np.array(data)  # `_fill` writes the next heatmap into it
        self._color(layer, signed)
        self._place = place

    @staticmethod
    def _fill(layer: Image, data: npt.ArrayLike) -> None:
        """Show other values of the same shape.

        Setting the data makes napari measure all layers, and a new thumbnail makes it draw the
        layer list: 15 ms, noticeable when you step through regions or images.
        """
        layer.data[...] = data
        layer.refresh(extent=False, thumbnail=False)

    def recolor(self) -> None:
        """Take the preferred colours, which have changed."""
        layer = self.layer
        if layer is not None and not self._signed:
            layer.colormap = colormap()

    def _color(self, layer: Image, signed: bool) -> None:
        """Set the colours only when the kind of map changes: the user may have chosen others."""
        if signed != self._signed:
            self._signed = signed
            layer.colormap = signed_colormap() if signed else colormap()

    def _take_over(self, layer: Image, image: Image) -> bool:
        """Move the layer above another image: a new one would take ten times as long."""
        if self._image is not image:
            layers = self._viewer.layers
            if layers.index(layer) != layers.index(image) + 1:
                with selection_kept(self._viewer):
                    layers.move(layers.index(layer), layers.index(image) + 1)
            layer.name, self._image, self._place = f"heatmap: {image.name}", image, None
            if layer.axis_labels != image.axis_labels:
                layer.axis_labels = image.axis_labels
        return True

    def _make(self, data: npt.NDArray[np.float32], image: Image, placed: dict[str, Any]) -> Image:
        return Image(
            np.array(data),  # `_fill` writes the next heatmap into it
            name=f"heatmap: {image.name}",
            rgb=False,
            contrast_limits=(0, 1),
            colormap=colormap(),
            blending="translucent_no_depth" if image.ndim > 2 else "translucent",
            opacity=self._opacity,
            interpolation2d="linear",
            metadata={OURS: "heatmap"},
            **placed,
        )

    def blank(self) -> None:
        """Show an empty map."""
        layer = self.layer
        if layer is not None:
            if layer.data.any():
                self._fill(layer, 0)
            self._color(layer, False)
