"""Choice of the image and of the regions on it, and a layer to draw them on."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
from qtpy.QtWidgets import QLabel, QMenu, QWidget

from ...app.layer_input.coordinates import Grid, ViewPoint, plane_of
from ...app.layer_input.label_layers import label_type
from ...app.layer_input.layer_facts import (
    EDITS,
    MOVES,
    count_regions,
    is_image,
    is_regions,
    is_shapes,
    levels_of,
)
from ...app.session import Session, Topic
from ...base.errors import InputError
from ...base.identity import Position, place_text
from ...base.wording import counted
from ..layers.placing import REGIONS_OPACITY, place_of
from ..widgets.layer_list import LayerEvents, LayerListWatch, layer_of
from ..widgets.sections import LayerCombo, Note, button, debouncer, form, line, stack
from .scope_widget import ScopeWidget

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image, Labels, Layer, Shapes
    from napari.utils.events import Event

    from ...app.layer_input.viewer_protocols import RegionsLayer


_QUIET = 150  # milliseconds without a change before regions are counted again
# The selection in the layer may decide what is run on.
_PICKS = ("selected_label", "highlight")
_COLOURS = 3
# A label image of more pixels would take gigabytes: shapes instead.
_MOST_PIXELS: Final = 2**28


class InputWidget(Topic, QWidget):
    """Image layer, regions layer, and a count of the regions shown."""

    def __init__(self, viewer: ViewerModel, session: Session) -> None:
        super().__init__()
        self._viewer, self._session = viewer, session
        self._undone = 0  # strokes in the regions layer
        self.image = LayerCombo(viewer, is_image, "none open")
        self.regions = LayerCombo(viewer, is_regions, "none yet")
        for combo in (self.image, self.regions):
            combo.setMinimumContentsLength(4)
        self.image.setToolTip("The plane shown of this layer is used.")
        self.regions.setToolTip(
            "Labels: every label is a region. Shapes: every shape is one; lines and paths count "
            "with their edge width."
        )
        self.number = QLabel()
        self.number.setAccessibleName("Number of regions")
        tip = "Draw regions, read them from a file, or segment boxes and points"
        self.add = button("Add", tip, name="Add regions")
        self.menu = QMenu(self.add)
        self.add.setMenu(self.menu)
        self.line = Note()
        tip = "Add the three planes as one colour image, and hide the stack"
        self.in_colour = button("Use as colours", tip, self._use_as_colours)
        self.three_planes = line(Note("Three planes: red, green and blue?"), self.in_colour)
        tip = "The model sees all layers as they are displayed"
        self.as_displayed = button("Use all", tip, self._use_as_displayed)
        self.other_channels = line(Note("The model sees this channel alone."), self.as_displayed)
        self.scope = ScopeWidget(session)
        stack(
            self,
            form(
                [
                    ("Image", self.image),
                    ("Regions", line(self.regions, self.number, self.add, shares=(1, 0, 0))),
                    self.line,
                    self.three_planes,
                    self.other_channels,
                ]
            ),
        )
        self._timer = debouncer(self, _QUIET, self.count)
        self.image.layer_changed.connect(lambda: session.choose(image=self.image.layer))
        self.regions.layer_changed.connect(lambda: session.choose(regions=self.regions.layer))
        # What is shown may be chosen again, so that it stays.
        self.image.activated.connect(lambda _: session.choose(image=self.image.layer))
        self.regions.activated.connect(lambda _: session.choose(regions=self.regions.layer))
        self._list = LayerListWatch(viewer, self._refresh)
        edits = dict.fromkeys(EDITS + MOVES, self._drawn)
        self._edits = LayerEvents(viewer, edits | dict.fromkeys(_PICKS, self._picked))
        self._dims = (viewer.dims.events.current_step, viewer.dims.events.order)

    def bind(self) -> None:
        """Follow the session, and the viewer's layers and dimensions."""
        run = self._session.run.events
        self._list.connect()
        self._edits.connect()
        for emitter in self._dims:
            emitter.connect(self._edited)
        self.after(self._layer_changed, run.layers)
        self.after(self.scope.show_scope, run.scope)
        self.after(self._offer, run.scope)
        self.after(self._timer.throttle, run.scope)
        self.after(self.scope.show_settings, run.settings)
        self.scope.show_settings(self._session.run.settings)
        self._refresh()
        self._layer_changed()

    def stop(self) -> None:
        """Stop following and release the layers."""
        super().stop()
        self._timer.cancel()
        self._list.disconnect()
        self._edits.disconnect()
        for emitter in self._dims:
            emitter.disconnect(self._edited)
        self.scope.set_regions(None)

    def _use_as_colours(self) -> None:
        image = self._session.run.image
        if is_channels_first(image):
            regions = self._session.run.regions
            with self._session.choice.kept():
                colours = add_in_colour(self._viewer, image)
            self._session.choose(image=colours, regions=regions)

    def _use_as_displayed(self) -> None:
        self._session.run.scope = replace(self._session.run.scope, channels="displayed")

    def _offer(self, _: object = None) -> None:
        """Offer what else may be meant by the image."""
        image = self._session.run.image
        self.three_planes.setVisible(is_channels_first(image))
        alone = self._session.run.scope.channels == "layer"
        self.other_channels.setVisible(alone and is_channel(image, self.image.suitable()))

    def count(self) -> None:
        """Show how many regions the plane has."""
        # Set once: each change of the number answers what the status line says.
        self._session.turn_to(self._position())
        self._session.run.region_count = self._counted()

    def _position(self) -> Position | None:
        """Return the place of the image's plane that is shown."""
        view, image = ViewPoint.of(self._viewer), self._session.run.image
        with suppress(InputError):
            return None if image is None else plane_of(Grid.of(image, view), view).position
        return None

    def _counted(self) -> int | None:
        """Count the regions of the next run, and say what was counted."""
        image, layer = self._session.run.layers
        on_all_planes = self._session.run.scope.planes != "shown"
        self.number.setText("")
        self.line.setVisible(image is not None and layer is not None)
        if image is None:
            self.line.setText("Open an image, or File > Open Sample > MaskInversion.")
            return None
        if layer is None:
            self.line.setText("Add a Labels or a Shapes layer and draw regions on the image.")
            return None
        view = ViewPoint.of(self._viewer)
        try:
            position = plane_of(Grid.of(image, view), view).position
            number = count_regions(layer, view, self._session.run.scope.planes)
        except InputError as error:
            self.line.setText(str(error))
            return None
        self.number.setText("" if number is None else f"{number:,}")
        self.line.setVisible(number is None or bool(position))  # the foot says what to do without
        if on_all_planes:
            where = " on all planes"
        else:
            where = f" on {place_text(position) or 'this plane'}"
        if number is None:
            if not on_all_planes and not position:
                where = ""
            self.line.setText(f"Regions{where} are counted when the run starts.")
        elif number == 0:
            self.line.setText(f"No regions{where}: draw some.")
        else:
            self.line.setText(f"{counted(number, 'region')}{where}")
        return number

    def _refresh(self, added: Layer | None = None) -> None:
        self._session.offer(self.image.suitable(), self.regions.suitable(), added)
        self._show_choice()
        self._offer()

    def _show_choice(self) -> None:
        for combo, layer in zip((self.image, self.regions), self._session.run.layers, strict=True):
            combo.show_choice(combo.suitable(), layer)

    def _layer_changed(self, _: object = None) -> None:
        regions = self._session.run.regions
        self._undone = _undone(regions)
        self._show_choice()
        self.scope.set_regions(regions)
        self._offer()
        self.count()

    def _drawn(self, event: Event) -> None:
        regions = self._session.run.regions
        if layer_of(event) is regions:
            before, self._undone = self._undone, _undone(regions)
            edited = before != self._undone or event.type in ("paint", "data")
            self._session.run.comparing |= edited
            self._edited()

    def _edited(self, _: object = None) -> None:
        self._timer.throttle()
        self._session.run.edits += 1

    def _picked(self, event: Event) -> None:
        if layer_of(event) is self._session.run.regions:
            self._session.run.picks += 1


def _undone(layer: RegionsLayer | None) -> int:
    """Return how many strokes were undone, of which napari tells as of any redrawing."""
    return len(getattr(layer, "_redo_history", ()))


def is_channel(image: Image | None, images: Sequence[Image]) -> bool:
    """Return whether an image is one of several channels, which napari adds up."""
    if image is None or image.rgb:
        return False
    size = image.extent.data.tolist()
    same_size = []
    for other in images:
        if not other.rgb and other.extent.data.tolist() == size:
            same_size.append(other)
    return len(same_size) > 1 and any(channel.blending == "additive" for channel in same_size)


def is_channels_first(image: Image | None) -> bool:
    """Return whether the planes of an image may be red, green and blue."""
    if image is None or image.rgb or image.multiscale or image.ndim != 3:
        return False
    data = image.data
    if not hasattr(data, "__array_function__"):  # others turn their axes otherwise
        return False
    # NumPy and dask turn the axes without reading the data.
    return bool(data.shape[0] == _COLOURS and data.dtype.kind in "uf")


def add_in_colour(viewer: ViewerModel, image: Image) -> Image:
    """Add the three planes as one colour image in the same place, and hide the stack."""
    layer = viewer.add_image(
        image.data.transpose(1, 2, 0),
        rgb=True,
        name=f"{image.name} (RGB)",
        scale=image.scale[1:],
        translate=image.translate[1:],
        rotate=image.rotate[1:, 1:],
        shear=image.shear[-1:],
        affine=image.affine.affine_matrix[1:, 1:],
        units=image.units[1:],
    )
    image.visible = False
    return layer


def draw_regions(
    viewer: ViewerModel, image: Image, regions: Labels | Shapes | None = None
) -> Labels | Shapes:
    """Make a layer for regions ready to be drawn on, and return it."""
    if regions is None:
        regions = _new_layer(viewer, image)
    viewer.layers.selection.active = regions
    if is_shapes(regions):
        regions.mode = "add_polygon_lasso"
    else:
        highest = int(np.max(regions.data)) if isinstance(regions.data, np.ndarray) else 0
        regions.selected_label = highest + 1
        regions.mode = "paint"
    return regions


def _new_layer(viewer: ViewerModel, image: Image) -> Labels | Shapes:
    shape = levels_of(image)[0].shape[: image.ndim]
    place = place_of(image)
    name = f"{image.name}: regions"
    if prod(shape) > _MOST_PIXELS:
        return viewer.add_shapes(ndim=image.ndim, name=name, **place)
    blank = np.zeros(shape, dtype=label_type(shape))
    return viewer.add_labels(blank, name=name, opacity=REGIONS_OPACITY, **place)
