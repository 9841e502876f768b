"""Hits of a search where nobody drew regions: threshold, outlines, and regions made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import numpy as np
from napari.layers import Labels
from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import QWidget
from superqt import QLabeledDoubleSlider

from ...app.explore.searches import FoundPlaces
from ...app.layer_input.coordinates import Plane
from ...app.layer_input.label_layers import layer_of_regions, with_index, with_labels
from ...app.layer_input.viewer_protocols import RegionsLayer
from ...app.session import Session
from ...base.errors import InputError
from ...base.regions import Region
from ...base.wording import counted
from ...language.ranking.query import label_of
from ..layers.overlays import COLOR, THINNER, RegionBorder
from ..layers.placing import REGIONS_OPACITY, box_transform, same_transform, selection_kept
from ..widgets.sections import button, form, pause, stack
from ..workers.notify import refusing
from .work_section import Shared

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image

_QUIET: Final = 60  # milliseconds without a change of the threshold


class HitsRow(QWidget):
    """How similar hits have to be, and what makes them regions; hidden without hits."""

    changed = Signal(int)  # Hits that are similar enough
    made = Signal(int, int)  # Regions, and hits that lie on others

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self._viewer, self._session = shared.viewer, shared.session
        self.border = RegionBorder(shared.viewer, THINNER, COLOR)
        self._is_seen = True
        self._finding: FoundPlaces | None = None
        self._pause = pause(self, _QUIET, self._draw)
        self.threshold = QLabeledDoubleSlider(Qt.Orientation.Horizontal)
        self.threshold.setDecimals(2)
        self.threshold.setSingleStep(0.01)
        self.threshold.setToolTip("Show the regions that are at least so similar")
        tip = "Add the outlined regions to the image's regions; Ctrl+Z on their layer undoes it"
        self.make = button("", tip, self._make)
        stack(self, form([("Similarity", self.threshold), self.make]))
        self.threshold.valueChanged.connect(lambda _: self._pause.start())
        self.threshold.valueChanged.connect(lambda _: self._cut())
        self.hide()

    def show_hits(self, finding: FoundPlaces) -> None:
        """Show the hits of a search, cut at the usual threshold."""
        self._finding = finding
        ends = finding.matches[-1].similarity, finding.matches[0].similarity
        low, high = (math.floor(100 * value) / 100 for value in ends)
        with QSignalBlocker(self.threshold):
            self.threshold.setRange(low, max(high, finding.usual))
            self.threshold.setValue(finding.usual)
        self._draw()
        self.show()
        self._cut()

    def clear(self) -> None:
        """Show no hits."""
        self._finding = None
        self._pause.stop()
        self.border.remove()
        self.hide()

    def display(self, visible: bool) -> None:
        """Show or hide the borders."""
        self._is_seen = visible
        self._draw()

    def _draw(self) -> None:
        if self._finding is None or not self._is_seen or not self._count:
            self.border.remove()
        else:
            image, plane = self._finding.snapshot.image, self._finding.finder.plane(())
            self.border.show(image, plane, *self._finding.regions[: self._count])

    @property
    def _count(self) -> int:
        return 0 if self._finding is None else self._finding.count(self.threshold.value())

    def _cut(self) -> None:
        count = self._count
        self.make.setText(f"Make {counted(count, 'region')}")
        self.make.setEnabled(count > 0)
        self.changed.emit(count)

    def _make(self) -> None:
        if (finding := self._finding) is None:
            return
        words = label_of(finding.words)
        regions = [replace(region, name=words) for region in finding.regions[: self._count]]
        image, plane = finding.snapshot.image, finding.finder.plane(())
        with refusing():
            made = make_regions(self._viewer, self._session, image, plane, regions)
            self.made.emit(made, len(regions) - made)


def make_regions(
    viewer: ViewerModel, session: Session, image: Image, plane: Plane, regions: Sequence[Region]
) -> int:
    """Add regions to the image's Labels layer, else to a new one, in one step to undo.

    Pixels that belong to other regions stay as they are. Returns how many regions found room.
    """
    if image not in viewer.layers:
        raise InputError("The image of these hits was closed; search again.")
    chosen = session.run.regions if session.run.image is image else None
    if _takes(chosen, image, len(regions)):
        layer = chosen
    else:
        layer = _new_layer(viewer, session, image, plane, regions[0].name or "like one")
    highest, names = int(layer.data.max(initial=0)), dict[int, str]()
    rows, columns = plane.cut.axes
    with layer.block_history():
        for region in regions:
            y, x = np.nonzero(region.mask > 0)
            places = zip(plane.cut.index, layer.data.shape, strict=True)
            index: list[Any] = [np.full(len(y), min(at, side - 1)) for at, side in places]
            index[rows], index[columns] = y + region.bbox[0], x + region.bbox[1]
            free = layer.data[tuple(index)] == 0
            if free.any():
                number = highest + len(names) + 1
                names[number] = region.name
                layer.data_setitem(tuple(axis[free] for axis in index), number, refresh=False)
    if not names:
        raise InputError("All hits lie on regions that are there.")
    _name(layer, names)
    layer.refresh()
    session.choose_for(image, layer)
    return len(names)


def _new_layer(
    viewer: ViewerModel, session: Session, image: Image, plane: Plane, words: str
) -> Labels:
    """Add a layer without regions: what is painted there later can be undone."""
    height, width = plane.shape
    shape = [1] * image.ndim
    for axis, side in zip(plane.cut.axes, plane.shape, strict=True):
        shape[axis] = side
    pixels, about = layer_of_regions([], tuple(shape), plane.cut.axes)
    box = (0.0, 0.0, float(height), float(width))
    placed = box_transform(image, plane, box, plane.shape)
    layer = Labels(pixels, name=f"{words} (found)", opacity=REGIONS_OPACITY, **about, **placed)
    session.choice.made_for(image, layer)
    with selection_kept(viewer), session.choice.kept():
        viewer.add_layer(layer)
    return layer


def _name(layer: Labels, names: dict[int, str]) -> None:
    """Set the words of labels; other features stay."""
    frame = with_labels(with_index(layer.features), names)
    for column in {"label", "source_id"} - set(frame):
        frame[column] = ""
    rows = zip(frame["index"], frame["label"], strict=True)
    frame["label"] = [names.get(index, label) for index, label in rows]
    layer.features = frame


def _takes(layer: RegionsLayer | None, image: Image, count: int) -> TypeGuard[Labels]:
    """Whether a layer has the pixels of an image, and room for more regions."""
    if not isinstance(layer, Labels) or layer.multiscale:
        return False
    if not isinstance(layer.data, np.ndarray):
        return False
    shape = image.data.shape[: image.ndim]
    placed = all(
        same_transform(getattr(layer, name), getattr(image, name))
        for name in ("scale", "translate", "rotate", "shear", "affine")
    )
    room = int(layer.data.max(initial=0)) + count <= np.iinfo(layer.data.dtype).max
    return bool(layer.data.shape == shape and placed and layer.editable and room)
