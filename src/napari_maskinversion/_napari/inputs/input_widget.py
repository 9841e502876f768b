"""Choice of the image and of the regions on it."""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QPushButton, QWidget

from ...base.errors import InputError
from ..layers.coordinates import Grid, ViewPoint, plane_of
from ..layers.layers import count_regions, is_ours
from ..widgets.sections import LayerCombo, Note, debouncer, form, stack
from .scope_widget import ScopeWidget

_QUIET = 150  # milliseconds without a change before regions are counted again
# Events of an edit: painting has its own, and the selection may decide what is run on.
_EDITS = ("data", "set_data", "paint", "labels_update", "selected_label", "highlight")


class InputWidget(QWidget):
    """Image layer, regions layer, and a count of the regions shown.

    Parameters
    ----------
    viewer : napari.Viewer
    """

    changed = Signal()  # another image or regions layer
    edited = Signal()  # the same layers, other regions or another plane
    layers_changed = Signal(object)  # the viewer's layers; the one just added, or None
    touched = Signal(str)  # the same, at once and each time; the name of the layer's event

    def __init__(self, viewer: Any) -> None:
        super().__init__()
        self._viewer = viewer
        self._watched: Any = None
        self.image = LayerCombo(viewer, _is_image, "no image layer")
        self.regions = LayerCombo(viewer, _is_regions, "no Labels or Shapes layer")
        self.image.setToolTip("The plane shown of this layer is used.")
        self.regions.setToolTip(
            "Labels: every label is a region. Shapes: every shape is one; lines and paths count "
            "with their edge width."
        )
        self.from_file = QPushButton("Regions from file...")
        self.from_file.setToolTip(
            "Lay the regions of a file on the image: COCO, GeoJSON, Pascal VOC or a label image. "
            "They become a layer of their own."
        )
        self.from_file.setAccessibleName("Regions from file")
        self.line = Note()
        self.scope = ScopeWidget()
        stack(
            self,
            form([("Image", self.image), ("Regions", self.regions), self.from_file, self.line]),
        )
        self._timer = debouncer(self, _QUIET, self._count_later)
        self.image.layer_changed.connect(self._layer_changed)
        self.regions.layer_changed.connect(self._layer_changed)
        self._connections = [
            (viewer.layers.events.inserted, self._inserted),
            (viewer.layers.events.removed, self._removed),
            (viewer.layers.events.reordered, self._reordered),
            (viewer.layers.events.changed, self._reordered),
            (viewer.dims.events.current_step, self._later),
            (viewer.dims.events.order, self._later),
        ]

    def connect_viewer(self) -> None:
        """Follow the viewer's layers and dimensions."""
        for emitter, slot in self._connections:
            emitter.connect(slot)
        for layer in self._viewer.layers:
            layer.events.name.connect(self._reordered)
        self._refresh()
        self._layer_changed()

    def disconnect_viewer(self) -> None:
        """Stop following and release the layers."""
        self._timer.cancel()
        for emitter, slot in self._connections:
            emitter.disconnect(slot)
        for layer in self._viewer.layers:
            layer.events.name.disconnect(self._reordered)
        self._watch(None)
        self.scope.set_regions(None)

    def count(self) -> None:
        """Show how many regions the plane has."""
        image, layer = self.image.layer, self.regions.layer
        if image is None:
            self.line.setText("Open an image, or File > Open Sample > MaskInversion.")
            return
        if layer is None:
            self.line.setText("Add a Labels or a Shapes layer and draw regions on the image.")
            return
        view = ViewPoint.of(self._viewer)
        try:
            position = plane_of(Grid.of(image, view), view).position
            number = count_regions(layer, view)
        except InputError as error:
            self.line.setText(str(error))
            return
        where = ", ".join(f"{name} {place}" for name, place in position)
        where = f" ({where})" if where else ""
        if number is None:
            self.line.setText(f"Regions of this plane{where}")
        elif number == 0:
            self.line.setText(f"No regions on this plane{where}: draw some.")
        else:
            self.line.setText(f"{number} region{'s' * (number != 1)} on this plane{where}")

    def _inserted(self, event: Any) -> None:
        event.value.events.name.connect(self._reordered)
        self._refresh(event.value)

    def _removed(self, event: Any) -> None:
        event.value.events.name.disconnect(self._reordered)
        self._refresh()

    def _reordered(self, event: Any = None) -> None:
        self._refresh()

    def _refresh(self, added: Any = None) -> None:
        self.image.refresh(added)
        self.regions.refresh(added)
        self.layers_changed.emit(added)

    def _layer_changed(self) -> None:
        self._watch(self.regions.layer)
        self.scope.set_regions(self.regions.layer)
        self.count()
        self.changed.emit()

    def _count_later(self) -> None:
        self.count()
        self.edited.emit()

    def _later(self, event: Any = None) -> None:
        self._timer.throttle()
        self.touched.emit(str(getattr(event, "type", "")))

    def _watch(self, layer: Any) -> None:
        """Count again after edits of the regions; painting has its own events."""
        for old, connect in ((self._watched, False), (layer, True)):
            for name in _EDITS if old is not None else ():
                emitter = getattr(old.events, name, None)
                if emitter is not None:
                    (emitter.connect if connect else emitter.disconnect)(self._later)
        self._watched = layer


def _is_image(layer: Any) -> bool:
    from napari.layers import Image

    return isinstance(layer, Image) and not is_ours(layer)


def _is_regions(layer: Any) -> bool:
    from napari.layers import Labels, Shapes

    return isinstance(layer, (Labels, Shapes)) and not is_ours(layer)
