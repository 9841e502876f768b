"""Opens the image of a region that a library knows and no project: the file, centred on it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Image
from qtpy.QtCore import QObject

from ...base.errors import InputError
from ...base.identity import ImageIdentity, identify_image, plane_text
from ...base.regions import Region
from ...images.opening import open_image
from ...library.adding import stored_path
from ..layers.coordinates import Grid, ViewPoint, plane_of
from ..layers.layers import FILE, IDENTITY, ONLY_FIRST, SERIES, file_of
from ..layers.overlays import RegionBorder
from ..layers.results_on_canvas import bring_into_view
from ..run_requests.preparing import image_layers
from ..session import RegionPlace, Session
from ..workers.notify import refuse
from ..workers.worker import Worker

if TYPE_CHECKING:
    from .opening import ImageLayer

Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, eq=False)
class FoundRegion:
    """The box of a region, and its image unless the viewer has it."""

    place: RegionPlace
    box: Box
    layers: tuple[ImageLayer, ...] = ()
    identity: ImageIdentity | None = None


class Elsewhere(QObject):
    """Shows one region at a time, by its border until something else is chosen."""

    def __init__(self, viewer: Any, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer, self._session = viewer, session
        self._border = RegionBorder(viewer)
        self.reader = Worker("latest", "Opening the image", self._show, refuse, parent=self)

    def open(self, place: RegionPlace) -> None:
        """Open a region of the library; its image stays in the viewer if it is there."""
        session, layer = self._session, self._layer_of(place)
        if layer is not None and layer is session.image and session.select_place(place):
            return
        if session.library is None:
            refuse("Choose the library of this region first, on the tab Explore.")
        else:
            self.reader.start(partial(_find, session.library, place, read=layer is None))

    def stop(self) -> None:
        """Open nothing more, and remove the border."""
        self.reader.drop()
        self.hide()

    def hide(self, _: object = None) -> None:
        """Remove the border: something else is looked at."""
        self._border.remove()

    def _layer_of(self, place: RegionPlace) -> Any:
        for one in image_layers(self._viewer):
            file = file_of(one)
            if file is not None and (stored_path(file), one.metadata.get(SERIES, 0)) == place.file:
                return one
        return None

    def _show(self, region: FoundRegion) -> None:
        session, viewer, (path, series) = self._session, self._viewer, region.place.file
        for layer in region.layers:
            about = {FILE: path, SERIES: series, IDENTITY: region.identity}
            about[ONLY_FIRST] = layer.only_first
            viewer.add_layer(Image(layer.data, metadata=about, **layer.options))
        image = self._layer_of(region.place)
        if image is None:  # removed meanwhile
            return
        session.choose(image=image)
        if region.layers:
            viewer.reset_view()
        if session.select_place(region.place):
            return
        viewer.layers.move(viewer.layers.index(image), len(viewer.layers))
        view = ViewPoint.of(viewer)
        names = [axis for axis, _ in region.place.position]
        axes = [view.labels.index(axis) for axis in names if axis in view.labels]
        if len(axes) < len(names):  # opened by another reader, which names none: in their order
            own = range(len(view.labels) - image.ndim, len(view.labels))
            axes = [axis for axis in own if axis not in view.displayed][: len(names)]
        at = [index for _, index in region.place.position][: len(axes)]
        view = view.at(axes, np.array(at, float))
        plane = plane_of(Grid.of(image, view), view)
        y0, x0, y1, x1 = region.box
        bring_into_view(viewer, image, plane, region.box)
        mask = np.ones((y1 - y0, x1 - x0), bool)
        self._border.show(image, plane, Region(region.place.region, region.box, mask))


def _find(library: Any, place: RegionPlace, *, read: bool) -> FoundRegion:
    """Look a region up in the library, and read its image; refuse one that is gone or changed."""
    from .opening import image_layers_of

    path, series = place.file
    rows = library.rows(image=escape(path))
    plane = plane_text(place.position)
    rows = rows[(rows["region"] == place.region) & (rows["plane"] == plane)]
    rows = rows[rows["series"] == series]
    if not len(rows):
        raise InputError(f"{place.image}: region {place.region} is not in the library any more.")
    row = rows.iloc[0]
    if problem := library.problem(int(row["id"])):
        raise InputError(problem)
    y0, x0, y1, x1 = (int(row[name]) for name in ("y0", "x0", "y1", "x1"))
    if not read:
        return FoundRegion(place, (y0, x0, y1, x1))
    file = Path(path)
    with open_image(file, int(row["series"])) as stack:
        whole = identify_image(file.name, stack.levels[0]) if "c" in stack.axes else None
        return FoundRegion(place, (y0, x0, y1, x1), image_layers_of(stack, file), whole)
