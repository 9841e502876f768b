"""Saved results, shown on the open image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...app.layer_input.coordinates import Grid, ViewPoint, slice_of
from ...app.layer_input.label_layers import layer_of_regions, why_no_layer
from ...app.layer_input.run_input import PlaneFinder
from ...app.requests.stored_results import stored_record
from ...app.session import Session
from ...base.errors import InputError, MaskShapeError
from ...base.identity import Position, RegionIdentity
from ...base.regions import Region
from ...base.wording import counted
from ...results.export.bundle import Bundle
from ..layers.placing import REGIONS_OPACITY, place_of

if TYPE_CHECKING:
    import pandas as pd
    from napari.components import ViewerModel
    from napari.layers import Image, Labels

    from ...images.lazy_plane import ArrayLike


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reopened:
    """Content of a results file."""

    path: Path
    image: Image  # The chosen image
    bundle: Bundle
    table: pd.DataFrame
    regions: list[tuple[Position, Region]]
    identities: list[RegionIdentity]
    difference: str  # How the image differs from that of the results; "" if it is the same


def open_results(path: Path, image: Image, pixels: ArrayLike) -> Reopened:
    """Read a results file and compare its image with other pixels; for a worker."""
    from ...base.identity import another_image, identify, identify_image
    from ...results.export.archive import open_archive

    bundle = open_archive(path)
    regions = [(place, mask.unpack()) for (place, _), mask in bundle.masks.items()]
    return Reopened(
        path=path,
        image=image,
        bundle=bundle,
        table=bundle.results.to_frame(),
        regions=regions,
        identities=[identify(region, place) for place, region in regions],
        difference=another_image(bundle.image, identify_image(str(image.name), pixels)),
    )


def show_reopened(viewer: ViewerModel, session: Session, reopened: Reopened) -> str:
    """Show results in the session and their regions as a layer; return a message."""
    results = reopened.bundle.results
    if reopened.image not in viewer.layers:
        raise InputError("The image was closed; open it and try again.")
    view = ViewPoint.of(viewer)
    grid = Grid.of(reopened.image, view)
    rows, columns = slice_of(grid, view).axes
    plane = grid.shape[rows], grid.shape[columns]
    if plane != results.info.image_shape:
        height, width = results.info.image_shape
        raise MaskShapeError(
            f"{reopened.path.name} holds results of another image: its planes have {height} x "
            f"{width} px, '{reopened.image.name}' has {plane[0]} x {plane[1]} px. Choose the "
            "image they belong to at the top of the panel."
        )
    obstacle = "the file does not hold them"
    if reopened.regions:
        obstacle = why_no_layer(reopened.regions, grid.shape)
    layer, grid_of_regions = None, grid
    if not obstacle:
        layer = _layer(viewer, reopened, grid, (rows, columns))
        grid_of_regions = Grid.of(layer, view)
    finder = PlaneFinder(view, grid, grid_of_regions, all_planes=len(grid.shape) > 2)
    session.run.live = False  # it would replace these results at once
    if layer is not None:
        session.choose(image=reopened.image, regions=layer)
        if len({region.position for region in results.regions}) > 1:
            session.run.scope = replace(session.run.scope, planes="each")
    record = stored_record(
        session.run.snapshot(),  # only now: it is one of the layers just chosen
        reopened.image,
        layer,
        reopened.bundle,
        finder,
        identities=reopened.identities,
        table=reopened.table,
    )
    session.show(record)
    if reopened.difference and reopened.bundle.image.content:
        session.run.image_changed = session.run.pixels_changed = True
    message = f"Opened {counted(len(results), 'region')} of {reopened.path.name}."
    if reopened.difference:
        message += f" They belong to another image: {reopened.difference}."
    if layer is not None and reopened.bundle.decisions.count(b"\n") > 1:  # more than a header
        message += " Press Review to use their decisions."
    if layer is None:
        message += f" Their regions have no layer: {obstacle}."
    return message


def _layer(viewer: ViewerModel, reopened: Reopened, grid: Grid, axes: tuple[int, int]) -> Labels:
    """Add the regions as Labels on the pixels of the image."""
    labels, about = layer_of_regions(reopened.regions, grid.shape, axes)
    name = f"regions of {reopened.path.stem}"
    about |= place_of(reopened.image)
    return viewer.add_labels(labels, name=name, opacity=REGIONS_OPACITY, **about)
