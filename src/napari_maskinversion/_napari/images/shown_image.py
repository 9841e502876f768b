"""Images of files in the viewer: that of a project, whose own layers come and go; of a library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from napari.layers import Image, Labels
from qtpy.QtCore import QObject

from ...app.layer_input.coordinates import Grid, ViewPoint, plane_of, slice_of
from ...app.layer_input.input_pictures import Channels, copy_picture
from ...app.layer_input.layer_facts import (
    FILE,
    IDENTITY,
    ONLY_FIRST,
    SERIES,
    is_ours,
    is_regions,
    is_shapes,
    place_of_image,
)
from ...app.layer_input.run_input import PlaneFinder, RunInput, ShapesCopy, copy_regions
from ...app.project.project_disk import SavedRegions
from ...app.requests.preparing import image_layers
from ...app.requests.stored_results import stored_record
from ...app.session import RegionPlace, Scope, Session, job_kinds
from ...base.errors import InputError
from ...base.identity import ImagePlace, identify_image, plane_text
from ...images.opening import open_image
from ..layers.overlays import RegionBorder
from ..layers.placing import REGIONS_OPACITY, place_of, remove_layers
from ..layers.results_on_canvas import bring_into_view
from ..workers.notify import refuse

if TYPE_CHECKING:
    from ...app.project.project_opening import ImageLayer, OpenedImage
    from ...base.identity import ImageIdentity

Box = tuple[int, int, int, int]


@dataclass(slots=True, eq=False)
class ShownImage:
    """An image of a project in the viewer.

    Its regions are those of its own layer, of layers that the panel made for it (from a file, by
    Segment), and of layers of the user that were chosen for it.
    """

    viewer: Any
    session: Session
    name: str
    images: list[Any]  # The image, or its channels
    labels: Any
    saved: SavedRegions  # Its regions as they are on the disk
    also: list[Any] = field(default_factory=list)  # The user's layers that were chosen for it
    # What the model is shown: the one image, or its channels together
    channels: Channels = field(init=False)
    _look: tuple[object, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.channels = "displayed" if len(self.images) > 1 else "layer"
        self._look = _look_of(self.images)

    @property
    def is_chosen(self) -> bool:
        """Whether it is the image that the panel works on."""
        return self.session.run.image in self.images

    def is_seen_as_opened(self, scope: Scope) -> bool:
        """Return whether a run sees what one without a window would see of the image."""
        if scope.channels != self.channels or _look_of(self.images) != self._look:
            return False
        visible = [image for image in image_layers(self.viewer) if image.visible]
        return self.channels == "layer" or visible == self.images

    @property
    def made(self) -> list[Any]:
        """The layers that the panel has made for it."""
        return [
            one for one in self.viewer.layers if self.session.choice.is_made_for(one, self.images)
        ]

    @property
    def region_layers(self) -> list[Any]:
        """The layers that hold its regions; its own one comes first, and always."""
        made = [layer for layer in self.made if is_regions(layer)]
        also = [layer for layer in self.also if layer in self.viewer.layers and layer not in made]
        others = [one for one in (*made, *also) if one is not self.labels and not is_ours(one)]
        return [self.labels, *others]

    def show_results(self, opened: OpenedImage, scope: Scope) -> None:
        """Show its results, if there are any."""
        if opened.bundle is None or opened.table is None:
            return
        view = ViewPoint.of(self.viewer)
        grid, labels = Grid.of(self.images[0], view), Grid.of(self.labels, view)
        record = stored_record(
            self.session.run.snapshot(),
            self.images[0],
            self.labels,
            opened.bundle,
            PlaneFinder(view, grid, labels, len(grid.shape) > 2),
            identities=opened.results_of,
            painted_as=opened.identities if opened.is_whole else (),
            table=opened.table,
        )
        self.session.show(record.changed(snapshot=replace(record.snapshot, scope=scope)))

    def lose(self, image: Any) -> bool:
        """Go on without an image that was removed; return whether a channel is left."""
        rest = [one for one in self.images if one is not image]
        if rest:
            self.session.choice.made_for(rest[0], *self.made)
            self.images = rest
        return bool(rest)

    def remove(self) -> None:
        """Remove its layers from the viewer; those of the user stay."""
        remove_layers(self.viewer, (*self.made, *self.images, self.labels))

    def check_planes(self, layer: Any) -> None:
        """Refuse regions that the image cannot keep."""
        view = _usual_view(self.viewer, self.images[0])
        grid, picture = Grid.of(layer, view), Grid.of(self.images[0], view)
        if is_shapes(layer):  # each shape counts on the plane of the image where it lies
            return
        planes = ((1,) * grid.ndim + picture.shape)[-grid.ndim :]
        for axis in slice_of(grid, view).others:
            if grid.shape[axis] > planes[axis]:
                raise InputError(
                    f"'{layer.name}' has {grid.shape[axis]} planes but {self.name} has "
                    f"{planes[axis]}. What you draw there is not saved with the image; choose "
                    "other regions."
                )

    def copy_regions(self) -> list[list[RunInput]]:
        """Copy the regions of each regions layer, on all planes."""
        view = _usual_view(self.viewer, self.images[0])
        picture = copy_picture(self.images[0], view, shown_only=False, snapshot=False)
        copies = []
        for layer in self.region_layers:
            parts = []
            for at, shown_only in _planes(layer, picture.grid, view):
                regions = copy_regions(layer, at, shown_only=shown_only)
                planes: Literal["shown", "each"] = "shown" if shown_only else "each"
                whole = RunInput(view=at, picture=picture, regions=regions, planes=planes)
                if isinstance(regions, ShapesCopy):
                    # One by one: a shape that lies outside the image spoils no other.
                    ones = [replace(regions, shapes=(shape,)) for shape in regions.shapes]
                    parts += [replace(whole, regions=one) for one in ones]
                else:
                    parts.append(whole)
            copies.append(parts)
        return copies


def _look_of(images: Sequence[Any]) -> tuple[object, ...]:
    """Return what changes the pixels that a run makes of an image, or of its channels."""
    return tuple(
        (*image.contrast_limits, image.gamma, *(_mixing(image) if len(images) > 1 else ()))
        for image in images
        if not image.rgb
    )


def _mixing(channel: Any) -> tuple[object, ...]:
    colors = channel.colormap.colors.tobytes()
    return channel.visible, channel.opacity, channel.blending, colors


def file_layers(
    layers: Sequence[ImageLayer], file: ImagePlace, identity: ImageIdentity | None
) -> list[Image]:
    """Return layers of an image, which know its file and which image of the file it is."""
    about = {FILE: file.path, SERIES: file.series, IDENTITY: identity}
    return [
        Image(one.data, metadata={**about, ONLY_FIRST: one.only_first}, **one.options)
        for one in layers
    ]


def show_image(
    viewer: Any, session: Session, opened: OpenedImage, before: ShownImage | None
) -> ShownImage:
    """Add an image of a project to the viewer, with its results, and choose it.

    It lies directly above the one ``before``: layers of the user stay above it, and the heatmap
    need not be moved.
    """
    images = file_layers(
        opened.layers, ImagePlace(str(opened.file), opened.series), opened.identity
    )
    labels = Labels(
        opened.labels,
        name=f"{opened.file.name}: regions",
        opacity=REGIONS_OPACITY,
        **opened.about,
        **place_of(images[0]),
    )
    layers = viewer.layers
    with session.choice.kept():
        place = _above(layers, [] if before is None else before.images)
        for number, image in enumerate(images):
            layers.insert(place + number, image)
        above = _above(layers, [] if before is None else [before.labels])
        layers.insert(max(place + len(images), above), labels)
    for image in images:
        session.choice.made_for(image, labels)
    shown = ShownImage(
        viewer, session, opened.name, images, labels, SavedRegions(opened.identities)
    )
    channels = shown.channels
    planes = (labels.ndim > 2 and opened.planes) or session.run.scope.planes
    session.run.scope = replace(session.run.scope, channels=channels, planes=planes)
    scope = replace(session.run.scope, limited=False, ids="", merge=False)
    shown.show_results(opened, scope)  # once its layers are chosen
    session.choose(image=images[0], regions=labels)
    return shown


def _above(layers: Any, those: Sequence[Any]) -> int:
    """Return the place above the highest of those layers; the top without any."""
    places = [layers.index(one) for one in those if one in layers]
    return max(places) + 1 if places else len(layers)


def _usual_view(viewer: Any, image: Any) -> ViewPoint:
    """Return the view on rows and columns of an image, however the viewer turns its axes."""
    view, names = ViewPoint.of(viewer), tuple(map(str, image.axis_labels))
    shift = len(view.point) - image.ndim
    rows, columns = (
        names.index(name) if name in names else image.ndim - before
        for name, before in (("y", 2), ("x", 1))
    )
    displayed = (shift + rows, shift + columns)
    point = tuple(0.0 if axis in displayed else at for axis, at in enumerate(view.point))
    return replace(view, point=point, displayed=displayed, labels=(*view.labels[:shift], *names))


def _planes(layer: Any, image: Grid, view: ViewPoint) -> Iterator[tuple[ViewPoint, bool]]:
    """Yield the view of each plane of a layer that is copied by itself, or one of all planes."""
    grid = Grid.of(layer, view)
    others = list(slice_of(grid, view).others)
    if is_shapes(layer):
        corners = [np.round(np.asarray(one, float)[:, others]) for one in layer.data]
        flat = [one[0] for one in corners if (one == one[0]).all()]
        places = list(dict.fromkeys(tuple(map(int, place)) for place in flat))
    elif all(grid.shape[axis] == 1 for axis in others):
        places = [(0,) * len(others)]  # a plane of the image, or all of it
    else:
        yield view, False
        return
    finder = PlaneFinder(view, image, grid, True)
    for place in places:
        yield finder.view_at([("", at) for at in place]), True


# -- of a library ----------------------------------------------------------------------------------


class Elsewhere(QObject):
    """Shows one region at a time, by its border until something else is chosen."""

    def __init__(self, viewer: Any, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer, self._session = viewer, session
        self._border = RegionBorder(viewer)
        self.reader = session.jobs.of(job_kinds.FIND_REGION)

    def open(self, place: RegionPlace) -> None:
        """Open a region of the library; its image stays in the viewer if it is there."""
        session, layer = self._session, self._layer_of(place)
        if layer is not None and layer is session.run.image and session.select_place(place):
            return
        if session.explore.library is None:
            refuse("Choose the library of this region first, on the tab Explore.")
        else:
            work = partial(_find, session.explore.library, place, read=layer is None)
            self.reader.start(work, self._show)

    def hide(self, _: object = None) -> None:
        """Remove the border: something else is looked at."""
        self._border.remove()

    def _layer_of(self, place: RegionPlace) -> Any:
        layers = image_layers(self._viewer)
        return next((one for one in layers if place_of_image(one) == place.file), None)

    def _show(self, looked_up: Any) -> None:
        place, box, layers, identity = looked_up
        session, viewer = self._session, self._viewer
        for layer in file_layers(layers, place.file, identity):
            viewer.add_layer(layer)
        image = self._layer_of(place)
        if image is None:  # removed meanwhile
            return
        session.choose(image=image)
        if layers:
            viewer.reset_view()
        if session.select_place(place):
            return
        viewer.layers.move(viewer.layers.index(image), len(viewer.layers))
        view = ViewPoint.of(viewer)
        names = [axis for axis, _ in place.key.position]
        axes = [view.labels.index(axis) for axis in names if axis in view.labels]
        if len(axes) < len(names):  # opened by another reader, which names none: in their order
            own = range(len(view.labels) - image.ndim, len(view.labels))
            axes = [axis for axis in own if axis not in view.displayed][: len(names)]
        at = [index for _, index in place.key.position][: len(axes)]
        view = view.at(axes, np.array(at, float))
        plane = plane_of(Grid.of(image, view), view)
        bring_into_view(viewer, image, plane, box)
        self._border.show_box(image, plane, box)


def _find(
    library: Any, place: RegionPlace, *, read: bool
) -> tuple[RegionPlace, Box, tuple[ImageLayer, ...], ImageIdentity | None]:
    """Look a region up in the library, and read its image; refuse one that is gone or changed.

    Returns its place and box, and layers and identity of the image if they are to be ``read``.
    """
    from ...app.project.project_opening import image_layers_of

    file, key = place.file, place.key
    rows = library.rows(image=escape(file.path))
    here = (rows["region"] == key.id) & (rows["plane"] == plane_text(key.position))
    rows = rows[here & (rows["series"] == file.series)]
    if not len(rows):
        raise InputError(f"{place.image}: region {key.id} is not in the library any more.")
    row = rows.iloc[0]
    if problem := library.problem(int(row["id"])):
        raise InputError(problem)
    y0, x0, y1, x1 = (int(row[name]) for name in ("y0", "x0", "y1", "x1"))
    layers: tuple[ImageLayer, ...] = ()
    whole = None
    if read:
        path = Path(file.path)
        with open_image(path, file.series) as stack:
            whole = identify_image(path.name, stack.levels[0]) if "c" in stack.axes else None
            layers = image_layers_of(stack, path)
    return place, (y0, x0, y1, x1), layers, whole
