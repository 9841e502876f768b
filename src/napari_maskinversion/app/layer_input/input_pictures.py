"""Image layers as a model sees them: copied on the main thread, planes made in any thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from ...base.errors import InputError
from ...images.channels import Channel, ChannelPlane, ColourPlane, auto_limits
from ...images.lazy_plane import ArrayLike, LazyPlane
from ...images.opening import nodata_of, without_masked
from ...images.plane_source import PlaneSource
from .coordinates import Grid, Plane, Slice, ViewPoint, pixels_to_layer, plane_of, slice_of
from .displayed_plane import SHADES, DisplayedLayer, DisplayedPlane, FloatArray, Look
from .layer_facts import copied, file_of, levels_of
from .viewer_protocols import Colormap, ImageLayer

Channels = Literal["layer", "displayed"]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LayerCopy:
    """One image layer: position, pixels and display settings."""

    grid: Grid
    # Copies of arrays in memory, and everything else as it is: dask and zarr are read by the
    # worker, piece by piece
    levels: tuple[ArrayLike, ...]
    pinned: bool  # Arrays in memory hold only the plane shown
    rgb: bool
    file: Path | None  # Its file, whose masks hide pixels
    look: Look

    @property
    def nodata(self) -> float | None:
        """The number that stands for no value in the layer's file."""
        return nodata_of(self.file, self.grid.shape)

    def lazy(self, cut: Slice) -> LazyPlane:
        """Return the pixels of a plane, lazily."""
        cut.check(self.grid)
        index = list(cut.index)
        if self.pinned and isinstance(self.levels[0], np.ndarray):
            index = [0] * len(index)
        levels = [
            without_masked(level, self.file, self.grid.shape, rgb=self.rgb, labels=False)
            for level in self.levels
        ]
        return LazyPlane(levels, axes=cut.axes, index=index, samples=self.rgb, nodata=self.nodata)

    def source(self, cut: Slice) -> PlaneSource:
        """Return the layer alone: its colours, or its contrast limits as black and white."""
        plane = self.lazy(cut)
        if self.rgb:
            return ColourPlane(plane)
        low, high = self.look.limits
        # napari's own limits may begin or end at the number that stands for no value, which is
        # neither the darkest nor the brightest one.
        if self._is_nodata(low):
            low = auto_limits(plane)[0]
        if self._is_nodata(high):
            high = auto_limits(plane)[1]
        limits = (low, high) if low < high else None
        gamma, name = self.look.gamma, self.grid.name
        return ChannelPlane([Channel(plane=plane, limits=limits, gamma=gamma, name=name)])

    def _is_nodata(self, value: float) -> bool:
        return self.nodata is not None and bool(np.isclose(value, self.nodata))


def copy_layer(
    layer: ImageLayer, view: ViewPoint, *, shown_only: bool, snapshot: bool = True
) -> LayerCopy:
    """Copy an image layer, or only its plane shown."""
    grid = Grid.of(layer, view)
    cut = slice_of(grid, view)
    if shown_only:
        cut.check(grid)
    levels = levels_of(layer)
    pinned = shown_only and all(isinstance(data, np.ndarray) for data in levels)
    for level in levels[1:]:
        # Coarser levels may have fewer planes; the reader maps the index.
        if any(level.shape[axis] != levels[0].shape[axis] for axis in cut.others):
            pinned = False
    return LayerCopy(
        grid=grid,
        levels=tuple(copied(data, cut if pinned else None, snapshot=snapshot) for data in levels),
        pinned=pinned,
        rgb=bool(layer.rgb),
        file=file_of(layer),
        look=_look_of(layer),
    )


def _look_of(layer: ImageLayer) -> Look:
    low, high = layer.contrast_limits
    return Look(
        limits=(float(low), float(high)),
        gamma=float(layer.gamma),
        opacity=float(layer.opacity),
        blending=str(layer.blending),
        colours=None if layer.rgb else shades(layer.colormap),
        smooth=str(layer.interpolation2d) != "nearest",
    )


def shades(colormap: Colormap) -> FloatArray:
    """Colours of a colormap from end to end, and NaN's."""
    values = np.append(np.linspace(0, 1, SHADES), np.nan)
    return np.asarray(colormap.map(values), dtype=np.float32)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Picture:
    """The image of a run: the layer whose pixels are used, and those shown with it."""

    image: LayerCopy
    # All visible image layers, the lowest one first; None for the image alone
    shown: tuple[LayerCopy, ...] | None = None
    background: tuple[float, float, float] = (0.0, 0.0, 0.0)  # RGB of the canvas

    @property
    def grid(self) -> Grid:
        """Where the image lies."""
        return self.image.grid

    def source(self, plane: Plane, view: ViewPoint) -> PlaneSource:
        """Return what the model sees of a plane."""
        if self.shown is None:
            return self.image.source(plane.cut)
        looks = []
        for layer in self.shown:
            try:
                cut = slice_of(layer.grid, view)
                if layer is self.image:
                    cut = plane.cut
                numbers = layer.lazy(cut)
                to_plane = pixels_to_layer(self.grid, plane, layer.grid, view)
            except InputError:
                continue  # not on this plane: the canvas does not show it either
            looks.append(DisplayedLayer(plane=numbers, to_plane=to_plane, look=layer.look))
        levels = self.image.lazy(plane.cut).levels
        return DisplayedPlane(levels, looks, self.background)


def copy_picture(
    image: ImageLayer,
    view: ViewPoint,
    *,
    channels: Channels = "layer",
    others: Sequence[ImageLayer] = (),
    background: tuple[float, float, float] = (0.0, 0.0, 0.0),
    shown_only: bool = True,
    snapshot: bool = True,
) -> Picture:
    """Copy what a run needs of the images."""
    copy = copy_layer(image, view, shown_only=shown_only, snapshot=snapshot)
    if shown_only:
        plane_of(copy.grid, view)
    if channels == "layer":
        return Picture(image=copy)
    shown = []
    for layer in others:
        if layer is image:
            if layer.visible:
                shown.append(copy)
            continue
        if not layer.visible:
            continue
        try:
            shown.append(copy_layer(layer, view, shown_only=shown_only, snapshot=snapshot))
        except InputError:
            continue  # not on this plane
    return Picture(image=copy, shown=tuple(shown), background=background)
