"""What shows where regions lie: border, window and crop of the selected one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
from napari.layers import Image
from napari.utils.colormaps.standardize_color import transform_color

from ...app.layer_input.coordinates import Grid, Plane, ViewPoint, slice_of
from ...app.layer_input.input_pictures import copy_layer
from ...app.layer_input.layer_facts import is_ours
from ...app.layer_input.run_input import PlaneFinder
from ...base.errors import InputError
from ...base.identity import Position
from ...base.regions import Region
from ...images.windows import FloatBox
from ...library.thumbnails import Pixels, cut_out, outlined
from ...regions.annotations.annotation import binary_mask

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.utils.events import Event, EventEmitter
    from vispy.scene.visuals import Mesh

FloatArray = npt.NDArray[np.float64]

# Widths on the screen in pixels, of the dark band and of the light one upon it.
WIDTHS: Final = (6.0, 2.5)
THINNER: Final = (3.0, 1.25)  # of further selected regions
_ABOVE_LAYERS: Final = 10**6
# Events of the list and of its layers after which another image may cover the region's.
_COVERING: Final = ("inserted", "removed", "reordered", "visible", "opacity", "blending")
_MOST_SIDE: Final = 1024  # larger masks are traced on every second, third, ... pixel
_MOST_SEGMENTS: Final = 20_000  # a ragged mask is traced more coarsely
COLOR = "#ffd400"
CROP_SIDE: Final = 120  # pixels of the longer side of a region that is cut out
_QUICK: Final = 600  # pixels of a side that are read in no time


def border_of(region: Region) -> FloatArray:
    """Trace the edges between pixels of a region and all others.

    Shapes: returns (N, 2, 2).
    """
    mask = binary_mask(region)
    step = max(1, -(-max(mask.shape) // _MOST_SIDE))
    while True:
        pieces = _edges(mask[::step, ::step])
        if len(pieces) <= _MOST_SEGMENTS:
            break
        step *= 2
    ends = np.minimum(pieces * step, mask.shape)
    return np.asarray(ends + np.asarray(region.bbox[:2]) - 0.5, dtype=np.float64)


def _edges(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    padded = np.pad(mask, 1)
    across = _runs(padded[:-1, 1:-1] != padded[1:, 1:-1])
    down = _runs((padded[1:-1, :-1] != padded[1:-1, 1:]).T)
    return np.concatenate([across, down[:, :, ::-1]])


def _runs(edge: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Return the ends (row, column) of each run of True along the rows."""
    change = np.diff(np.pad(edge, ((0, 0), (1, 1))).astype(np.int8), axis=1)
    return np.stack([np.argwhere(change == 1), np.argwhere(change == -1)], axis=1)


def bands(pieces: FloatArray, width: float) -> FloatArray:
    """Return the corners (N, 4, 2) of bands of a width along straight pieces, with square ends."""
    along = pieces[:, 1] - pieces[:, 0]
    along *= width / 2 / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-12)
    across = along[:, ::-1] * (-1, 1)
    start, end = pieces[:, 0] - along, pieces[:, 1] + along
    return np.stack([start - across, start + across, end + across, end - across], axis=1)


class RegionBorder:
    """Draws the borders of one region or of several.

    A mesh in the scene: it is in no list of layers, so it cannot be selected or saved, and nothing
    covers it. Its width on the screen is always the same.
    """

    def __init__(
        self, viewer: ViewerModel, widths: tuple[float, float] = WIDTHS, color: str = "white"
    ) -> None:
        self._viewer, self._widths = viewer, widths
        self._tones = transform_color(["black", color])
        self._node: Mesh | None = None
        self._drawn: tuple[Image, Plane, FloatArray] | None = None
        self._pieces: FloatArray | None = None  # in the scene, (x, y)

    @property
    def visible(self) -> bool:
        """Whether the border is on the canvas now."""
        return self._node is not None and bool(self._node.visible)

    @property
    def corners(self) -> FloatArray | None:
        """The smallest and the largest (y, x) of what is drawn, in the world; None for nothing."""
        if not self.visible or self._pieces is None:
            return None
        points = self._pieces.reshape(-1, 2)[:, ::-1]
        return np.stack([points.min(axis=0), points.max(axis=0)])

    def show(self, image: Image, plane: Plane, *regions: Region) -> None:
        """Draw the borders of regions of an image's plane, and no others."""
        self._show(image, plane, np.concatenate([border_of(region) for region in regions]))

    def show_box(self, image: Image, plane: Plane, box: FloatBox) -> None:
        """Draw a box of an image's plane, and nothing else."""
        y0, x0, y1, x1 = (value - 0.5 for value in box)
        corners = np.array([(y0, x0), (y0, x1), (y1, x1), (y1, x0)])
        self._show(image, plane, np.stack([corners, np.roll(corners, -1, axis=0)], axis=1))

    def _show(self, image: Image, plane: Plane, pieces: FloatArray) -> None:
        self._drawn = image, plane, pieces
        if self._node is None and not self._make():
            return
        self._place()

    def remove(self) -> None:
        """Remove the border."""
        self._drawn = self._pieces = None
        if self._node is None:
            return
        self._node.parent = None
        self._node = None
        for event in self._events():
            event.disconnect(self._place)
        self._viewer.layers.events.disconnect(self._layers_changed)
        self._viewer.scene.camera.events.zoom.disconnect(self._draw)

    def _make(self) -> bool:
        from vispy.scene.visuals import Mesh

        # Not in napari's public interface, which has no way to draw what is no layer.
        window = getattr(getattr(self._viewer, "window", None), "_qt_viewer", None)
        view = getattr(getattr(window, "canvas", None), "view", None)
        if view is None:  # a viewer without a window
            return False
        self._node = Mesh(parent=view.scene)
        self._node.order = _ABOVE_LAYERS
        self._node.set_gl_state("translucent", depth_test=False, cull_face=False)
        for event in self._events():
            event.connect(self._place)
        self._viewer.layers.events.connect(self._layers_changed)
        self._viewer.scene.camera.events.zoom.connect(self._draw)
        return True

    def _events(self) -> list[EventEmitter]:
        dims = self._viewer.dims.events
        return [dims.point, dims.order, dims.ndisplay]

    def _layers_changed(self, event: Event) -> None:
        if event.type in _COVERING:
            self._place()

    def _place(self, event: object = None) -> None:
        """Find where the border lies in the scene; hide it where its plane is not shown."""
        self._pieces = None
        if self._drawn is not None:
            image, plane, pieces = self._drawn
            self._pieces = self._to_scene(image, plane, pieces)
        self._draw()

    def _to_scene(self, image: Image, plane: Plane, pieces: FloatArray) -> FloatArray | None:
        if self._viewer.dims.ndisplay != 2 or image not in self._viewer.layers or not len(pieces):
            return None
        if is_covered(self._viewer, image):
            return None
        view = ViewPoint.of(self._viewer)
        try:
            grid = Grid.of(image, view)
            if slice_of(grid, view) != plane.cut:
                return None
        except InputError:
            return None
        world = grid.to_world(plane.to_data(pieces.reshape(-1, 2)))
        shift = len(view.point) - grid.ndim
        down, across = (world[:, axis - shift] for axis in view.displayed)
        return np.stack([across, down], axis=1).reshape(pieces.shape)

    def _draw(self, event: object = None) -> None:
        node, pieces = self._node, self._pieces
        if node is None:
            return
        node.visible = pieces is not None
        if pieces is None:
            return
        zoom = max(float(self._viewer.scene.camera.zoom), 1e-9)
        corners = np.concatenate([bands(pieces, width / zoom) for width in self._widths])
        first = 4 * np.arange(len(corners))[:, None]
        faces = (first + np.array([0, 1, 2, 0, 2, 3])).reshape(-1, 3)
        # All of the dark band first: what comes later is drawn over it.
        tones = np.repeat(self._tones, 2 * len(pieces), axis=0)
        node.set_data(
            vertices=corners.reshape(-1, 2).astype(np.float32),
            faces=faces.astype(np.uint32),
            face_colors=tones,
        )


def is_covered(viewer: ViewerModel, image: Image) -> bool:
    """Return whether an image of the user lies upon another one and hides it."""
    layers = list(viewer.layers)
    return any(
        isinstance(layer, Image) and not is_ours(layer) and layer.visible and _hides(layer, image)
        for layer in layers[layers.index(image) + 1 :]
    )


def _hides(layer: Image, image: Image) -> bool:
    if layer.opacity < 1 or str(layer.blending) in ("additive", "multiplicative", "minimum"):
        return False
    start, end = layer.extent.world[:, -2:]
    image_start, image_end = image.extent.world[:, -2:]
    return bool((start <= image_start).all() and (end >= image_end).all())


def crop_reader(
    image: Image, finder: PlaneFinder, region: Region, position: Position
) -> tuple[Callable[[], Pixels], bool]:
    """Copy what is needed of a layer; return a function that cuts out a region, for any thread.

    Also returns whether it is quick: the pixels are few, and in memory.
    """
    plane_position = position if finder.all_planes else ()
    layer = copy_layer(image, finder.view_at(plane_position), shown_only=True, snapshot=False)
    source = layer.source(finder.plane(plane_position).cut)

    def make() -> Pixels:
        picture = cut_out(source, region.bbox, region)
        scale = CROP_SIDE / max(picture.size)
        size = [round(scale * side) for side in picture.size]
        # One by one: Pillow blackens what is transparent.
        parts = [picture.convert("RGB").resize(size), picture.getchannel("A").resize(size)]
        return outlined(np.dstack(list(map(np.asarray, parts))))

    in_memory = all(isinstance(level, np.ndarray) for level in layer.levels)
    y0, x0, y1, x1 = region.bbox
    return make, in_memory and max(y1 - y0, x1 - x0) <= _QUICK
