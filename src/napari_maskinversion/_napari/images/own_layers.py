"""The layers of an image of a project: added, recognised and removed; no others are touched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from ..layers.coordinates import Grid, ViewPoint, slice_of
from ..layers.layers import FILE
from ..layers.placing import REGIONS_OPACITY, place_of, remove_layer
from ..layers.tasks import PlaneFinder, RunInput, copy_regions
from ..run_requests.preparing import prepare
from ..run_requests.stored_results import stored_record
from ..session import Session

if TYPE_CHECKING:
    from ...base.identity import RegionIdentity
    from .opening import OpenedImage


@dataclass(slots=True, eq=False)
class ShownImage:
    """An image of a project in the viewer.

    Attributes
    ----------
    name : str
    images : list of napari layers
        The image, or its channels.
    labels : napari.layers.Labels
    known : tuple of RegionIdentity
        Its regions as they are on the disk.
    """

    name: str
    images: list[Any]
    labels: Any
    known: tuple[RegionIdentity, ...]

    @property
    def layers(self) -> list[Any]:
        """All layers that were made for it."""
        return [*self.images, self.labels]


def show_image(viewer: Any, session: Session, opened: OpenedImage) -> ShownImage:
    """Add an image of a project to the viewer, with its results, and choose it."""
    with session.kept_choice():
        images = [
            viewer.add_image(layer.data, metadata={FILE: str(opened.file)}, **layer.options)
            for layer in opened.layers
        ]
        more = {} if opened.features is None else {"features": opened.features}
        labels = viewer.add_labels(
            opened.labels,
            name=f"{opened.file.name}: regions",
            opacity=REGIONS_OPACITY,
            **more,
            **place_of(images[0]),
        )
    session.choose(image=images[0], regions=labels)
    channels: Literal["layer", "displayed"] = "displayed" if len(images) > 1 else "layer"
    if session.scope.channels != channels:
        session.scope = replace(session.scope, channels=channels)
    shown = ShownImage(opened.name, images, labels, opened.identities)
    show_results(viewer, session, opened, shown)
    return shown


def show_results(viewer: Any, session: Session, opened: OpenedImage, shown: ShownImage) -> None:
    """Show the results of an image that is in the viewer, if it has any."""
    if opened.bundle is None or opened.table is None:
        return
    view = ViewPoint.of(viewer)
    grid, labels = Grid.of(shown.images[0], view), Grid.of(shown.labels, view)
    finder = PlaneFinder(view, grid, labels, len(grid.shape) > 2)
    record = stored_record(
        session.snapshot(),
        shown.images[0],
        shown.labels,
        opened.bundle,
        finder,
        identities=opened.results_of,
        painted_as=opened.identities,
        table=opened.table,
    )
    session.show(record.changed(snapshot=replace(record.snapshot, scope=session.scope)))


def remove_image(viewer: Any, shown: ShownImage) -> None:
    """Remove the layers of an image from the viewer."""
    for layer in shown.layers:
        if layer in viewer.layers:
            remove_layer(viewer, layer)


def regions_to_save(viewer: Any, session: Session) -> RunInput:
    """Copy the regions of the image shown, on all planes.

    Raises
    ------
    InputError
        If they cannot be used.
    """
    run_input = prepare(viewer, session, snapshot=False)
    layer, view = session.regions, ViewPoint.of(viewer)
    flat = hasattr(layer, "shape_type") or not slice_of(Grid.of(layer, view), view).others
    regions = copy_regions(layer, view, shown_only=flat)
    planes: Literal["shown", "each"] = "shown" if flat else "each"
    return replace(run_input, regions=regions, planes=planes, only=None, merge=False)
