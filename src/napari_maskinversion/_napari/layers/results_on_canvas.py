"""Results on the canvas: heatmap, border, window, and the view of the selected region."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from ...app.layer_input.coordinates import Grid, Plane, ViewPoint, slice_of
from ...app.layer_input.run_input import PlaneFinder
from ...app.layer_input.viewer_protocols import RegionsLayer
from ...app.work.driver import Forming
from ...base.errors import InputError
from ...base.identity import Position
from ...base.regions import Region
from ...engine.explain.interpolation import heatmap
from ...images.windows import FloatBox
from ...library.thumbnails import Pixels
from ...results.export.bundle import CompressedRegion
from ...results.region_result import RegionResult
from ..workers.notify import inform
from .accepted_texts import AcceptedText, AcceptedTexts, nearest
from .heatmap import HeatmapLayer, shown_size
from .overlays import (
    COLOR,
    THINNER,
    RegionBorder,
    crop_reader,
    is_covered,
)

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image

Mask = Region | CompressedRegion
Masks = Mapping[int, Mask]
FloatArray = npt.NDArray[np.float32]
Box = tuple[int, int, int, int]
_MOST_BORDERS = 300  # each takes a fifth of a millisecond
_LEAST_SEEN, _ENLARGED = 14, 80  # pixels on the screen: smaller regions are enlarged


class Marked(NamedTuple):
    """The region that has a border."""

    region: RegionResult
    image: Image | None
    plane: Plane
    mask: Mask | None  # its pixels, where they are not among those of `know`


class RegionOrigin(NamedTuple):
    """Where a region lies that is not of the results shown."""

    image: Image | None
    finder: PlaneFinder | None  # Finds its plane
    mask: Mask | None


class ResultsOnCanvas:
    """Shows one region at a time over its image."""

    def __init__(self, viewer: ViewerModel) -> None:
        self.viewer = viewer
        self.border, self.further = RegionBorder(viewer), RegionBorder(viewer, THINNER)
        self.heatmap, self.outline = HeatmapLayer(viewer), RegionBorder(viewer, THINNER, COLOR)
        self.texts = AcceptedTexts(viewer)
        self.image: Image | None = None
        self._masks: Masks = {}
        self._finder: PlaneFinder | None = None
        self._told = False
        self._inside = False
        self.foreign = False  # Whether a region of other results than those of `know` is shown
        self._marked: Marked | None = None

    def belong_to(self, image: Image, finder: PlaneFinder | None) -> None:
        """Take results of another run: blank until one of them is shown."""
        self.image, self._finder, self._told = image, finder, False
        self._masks = {}
        self.blank()

    def know(self, masks: Masks) -> None:
        """Take the regions' pixels, by the ``id()`` of their embedding: borders and crops show."""
        self._masks = masks
        self._mark(self._marked)  # its pixels may be known only now

    def forget(self) -> None:
        """Release the image and leave our layers to the user."""
        self.image = self._finder = None
        self._masks = {}
        self.heatmap.forget()
        self.outline.remove()
        self.further.remove()
        self._mark(None)

    def show(
        self,
        region: RegionResult,
        *,
        outlined: bool,
        move: bool = True,
        of: RegionOrigin | None = None,
    ) -> None:
        """Show a region's heatmap and plane, if its image is still there and unchanged.

        ``of`` is where a region lies that is not of the results.
        """
        image, finder, mask = of or (self.image, self._finder, None)
        self.foreign = of is not None
        plane = self._plane(image, finder, region.position)
        if plane is None:
            self.outline.remove()
            self._mark(None)
            return
        self._show_own(region, image, plane)
        if outlined:
            self.outline.show_box(image, plane, region.window.box)
        else:
            self.outline.remove()
        if move:
            bring_into_view(self.viewer, image, plane, region.bbox)
        self._mark(Marked(region, image, plane, mask))

    def show_map(
        self,
        region: RegionResult,
        heat: FloatArray,
        *,
        signed: bool = False,
        box: FloatBox | None = None,
    ) -> None:
        """Show another heatmap (h, w) for a region; the view stays.

        It lies in the region's window, or in another ``box`` of the plane.
        """
        plane = self._plane(self.image, self._finder, region.position)
        if plane is not None:
            self._show(region, heat, self.image, plane, signed=signed, box=box)
            self._mark(Marked(region, self.image, plane, None))

    def show_own_map(self, region: RegionResult) -> None:
        """Show a region's own heatmap again; the view stays."""
        plane = self._plane(self.image, self._finder, region.position)
        if plane is not None:
            self._show_own(region, self.image, plane)
            self._mark(Marked(region, self.image, plane, None))

    def blank(self) -> None:
        """Show no region."""
        self.heatmap.blank()
        self.outline.remove()
        self.further.remove()
        self._mark(None)

    def show_further(self, regions: Sequence[RegionResult]) -> None:
        """Draw the borders of regions that are selected too, those on the plane of the first."""
        same = [region for region in regions if region.position == regions[0].position]
        same = same[:_MOST_BORDERS]
        plane = self._plane(self.image, self._finder, same[0].position) if same else None
        masks = list(filter(None, map(self._mask_of, same)))
        if plane is None or not masks:
            self.further.remove()
        else:
            self.further.show(self.image, plane, *masks)

    def focus(self, *, dimmed: bool, inside: bool) -> None:
        """Show heatmaps paler, or cut off at the border of their region."""
        changed, self._inside = inside != self._inside, inside
        self.heatmap.dim(dimmed)
        marked = self._marked
        if changed and marked is not None and marked.image in self.viewer.layers:
            self._show_own(marked.region, marked.image, marked.plane)

    def crop(self, region: RegionResult) -> tuple[Callable[[], Pixels], bool] | None:
        """Return a function that cuts a region out of its image, see `crop_reader`.

        None if its image has changed, or its pixels are unknown.
        """
        image, finder, mask = self.image, self._finder, self._mask_of(region)
        if mask is None or finder is None or image not in self.viewer.layers:
            return None
        try:
            return crop_reader(image, finder, mask, region.position)
        except InputError:
            return None

    def row_at(self, regions: Sequence[RegionResult], world: Sequence[float]) -> int:
        """Return the row of the smallest region at a point of the plane shown; -1 for none."""
        image, finder, view = self.image, self._finder, ViewPoint.of(self.viewer)
        if finder is None or self.viewer.dims.ndisplay != 2:
            return -1
        if image is None or image not in self.viewer.layers:
            return -1
        if not image.visible or is_covered(self.viewer, image):
            return -1  # the click means what it sees
        try:
            grid = Grid.of(image, view)
            cut = slice_of(grid, view)
        except InputError:
            return -1
        data = grid.to_data(np.asarray(world)[-grid.ndim :])
        y, x = (round(float(data[axis])) for axis in cut.axes)
        smallest_area, smallest_row = math.inf, -1
        for row, region in enumerate(regions):
            y0, x0, y1, x1 = region.bbox
            if not (y0 <= y < y1 and x0 <= x < x1):
                continue
            plane, mask = self._plane(image, finder, region.position), self._mask_of(region)
            if plane is None or plane.cut != cut or mask is None:
                continue
            if mask.mask[y - y0, x - x0] > 0 and region.area < smallest_area:
                smallest_area, smallest_row = region.area, row
        return smallest_row

    def _mask_of(self, region: RegionResult) -> Region | None:
        """Return the pixels of a region; None while they are unknown."""
        mask = self._masks.get(id(region.raw_embedding))
        if mask is None or tuple(mask.bbox) != tuple(region.bbox):
            return None
        return _unpacked(mask)

    def _mark(self, marked: Marked | None) -> None:
        self._marked = marked
        mask = None
        if marked is not None:
            mask = _unpacked(marked.mask) or self._mask_of(marked.region)
        if marked is None or mask is None:
            self.border.remove()
        else:
            self.border.show(marked.image, marked.plane, mask)

    def _show_own(self, region: RegionResult, image: Image | None, plane: Plane) -> None:
        if region.has_heatmap:
            heat = heatmap(region.grid_map, shown_size(region.window.input_size))
            self._show(region, heat, image, plane)
        else:
            self.heatmap.blank()

    def _show(
        self,
        region: RegionResult,
        heat: FloatArray,
        image: Image | None,
        plane: Plane,
        *,
        signed: bool = False,
        box: FloatBox | None = None,
    ) -> None:
        mask = self._mask_of(region) if self._inside and not signed else None
        place = box or region.window.box
        self.heatmap.show(heat, image, plane, place, signed=signed, region=mask)

    def show_forming(
        self, forming: Forming, image: Image, finder: PlaneFinder | None = None
    ) -> None:
        """Show an intermediate heatmap; the view stays."""
        plane = self._plane(image, finder or self._finder, forming.position)
        if plane is not None:
            self.heatmap.show(forming.heatmap, image, plane, forming.box)

    def show_texts(
        self, texts: Sequence[AcceptedText], above: RegionsLayer, near: RegionResult | None
    ) -> None:
        """Show the texts nearest to a region, above the layer of regions; no texts removes all."""
        image, finder, layers = self.image, self._finder, self.viewer.layers
        if (
            not texts
            or finder is None
            or image not in layers
            or above not in layers
            or not self._has_its_size(image, finder)
        ):
            self.texts.remove()
        else:
            self.texts.show(nearest(texts, near), image, finder, above)

    def _plane(
        self, image: Image | None, finder: PlaneFinder | None, position: Position
    ) -> Plane | None:
        """Return the plane of a region; None if its image is gone or has another size."""
        if (
            finder is None
            or image not in self.viewer.layers
            or not self._has_its_size(image, finder)
        ):
            return None
        return finder.plane(position if finder.all_planes else ())

    def _has_its_size(self, image: Image, finder: PlaneFinder) -> bool:
        """Whether the layer still holds an image of the shape that the run saw."""
        try:
            shape = Grid.of(image, ViewPoint.of(self.viewer)).shape
            if shape == finder.image.shape:
                return True
            reason = f"Layer '{image.name}' holds an image of another size since this run."
        except InputError as error:
            reason = str(error)
        if not self._told:
            self._told = True
            inform(f"{reason} Its heatmaps cannot be shown; run again to see them.")
        return False


def _unpacked(mask: Mask | None) -> Region | None:
    return mask.unpack() if isinstance(mask, CompressedRegion) else mask


def bring_into_view(viewer: ViewerModel, image: Image, plane: Plane, bbox: Box) -> None:
    """Show a region: turn to its plane, and move to it if it is off-screen or too small to see."""
    view = ViewPoint.of(viewer)
    try:
        grid = Grid.of(image, view)
        shown = slice_of(grid, view)
    except InputError:
        return  # the viewer was rolled: the image has no extent along an axis shown
    y0, x0, y1, x1 = bbox
    centre = plane.to_data([((y0 + y1 - 1) / 2, (x0 + x1 - 1) / 2)])[0]
    world = grid.to_world(centre)
    shift = viewer.dims.ndim - image.ndim
    across = plane.cut.others  # the axes from plane to plane
    if shown.axes != plane.cut.axes:
        return  # the viewer was rotated: there is no such plane to show
    if any(shown.index[axis] != plane.cut.index[axis] for axis in across):
        axes = [axis + shift for axis in across]
        viewer.dims.set_point(axes, [float(world[axis]) for axis in across])
    camera = viewer.scene.camera
    corners = [grid.to_world(corner) for corner in plane.to_data([(y0, x0), (y1, x1)])]
    pixels = camera.zoom * float(np.abs(np.subtract(*corners)).max())  # on the screen
    if pixels < _LEAST_SEEN:
        camera.zoom *= _ENLARGED / pixels
    if pixels < _LEAST_SEEN or not _visible(image, plane, centre):
        centre_now = list(camera.center)
        centre_now[-2:] = [float(world[axis]) for axis in plane.cut.axes]
        camera.center = tuple(centre_now)


def _visible(image: Image, plane: Plane, centre: npt.NDArray[np.float64]) -> bool:
    corners = np.asarray(image.corner_pixels, dtype=float)
    if image.multiscale:
        corners = corners * image.downsample_factors[image.data_level]
    return all(corners[0, axis] <= centre[axis] <= corners[1, axis] for axis in plane.cut.axes)
