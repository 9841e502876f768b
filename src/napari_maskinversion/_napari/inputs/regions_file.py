"""Regions of a file: asks for it, reads it in a worker, and places them on the open image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import QObject
from qtpy.QtWidgets import QInputDialog

from ...app.layer_input.coordinates import Grid, Plane, Slice, ViewPoint, axis_names, slice_of
from ...app.layer_input.label_layers import COVERED, layer_of
from ...app.layer_input.layer_facts import file_of, path_of
from ...app.session import Session, Topic, job_kinds
from ...base.errors import InputError, ManyImagesError
from ...base.identity import Position
from ...base.wording import counted
from ...images.opening import georeference_of
from ...regions.annotations.annotation import Annotation, Annotations, on_axes
from ...regions.annotations.annotation_reading import (
    FORMATS,
    SUFFIXES,
    is_annotations,
    read_annotations,
)
from ...regions.annotations.label_maps import read_names
from ..layers.placing import REGIONS_OPACITY, box_transform, selection_kept
from ..widgets.dialogs import ask_file, file_filter
from ..workers.notify import inform, refuse, refusing
from .input_widget import InputWidget

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Image, Layer

    from ...regions.label_images import PlaneRegions


LABEL_IMAGES: Final = (".tif", ".tiff", ".png", ".npy")
_FILES: Final = ";;".join(
    file_filter(name, suffixes)
    for name, suffixes in (
        ("Regions", (*SUFFIXES, *LABEL_IMAGES)),
        *((form.name, form.suffixes) for form in FORMATS),
        ("Label images", LABEL_IMAGES),
        ("All files", ("",)),
    )
)


class RegionsFileController(Topic, QObject):
    """Reads a file's regions into a layer on the chosen image, and chooses that layer."""

    def __init__(
        self, viewer: ViewerModel, session: Session, part: InputWidget, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session, self._part = viewer, session, part
        self.reading = session.jobs.of(job_kinds.READ_REGIONS)

    def bind(self) -> None:
        """Follow the session."""
        self.after(self.open_file, self._session.run.open_regions)

    def ask(self) -> None:
        """Ask for a file and read it."""
        if self._session.run.image is None:
            refuse("First open the image that the regions belong to.")
            return
        image = file_of(self._session.run.image)
        place = "" if image is None else str(image.parent)
        if path := ask_file(self._part, "Regions from file", _FILES, place):
            self.open_file(path)

    def open_file(self, path: Path) -> None:
        """Read a file's regions for the chosen image, or show why this fails."""
        layer = self._session.run.image
        if layer is None:
            refuse("First open the image that the regions belong to.")
            return
        with refusing():
            target = Target.of(layer, ViewPoint.of(self._viewer), list(self._viewer.layers))
            self.reading.start(partial(read_regions_file, path, target), self._show)

    def _show(self, outcome: Read | Which) -> None:
        if isinstance(outcome, Which):
            self._ask_which(outcome)
            return
        if outcome.target.layer not in self._viewer.layers:
            refuse("The image was closed; open it and try again.")
            return
        with selection_kept(self._viewer), self._session.choice.kept():
            pixels, about = outcome.layer
            about |= {"opacity": REGIONS_OPACITY, **outcome.place()}
            labels = self._viewer.add_labels(pixels, **about)
        image = outcome.target.layer
        self._session.choice.made_for(image, labels)
        message = outcome.message
        if not self._session.choose_for(image, labels):
            message += f" Choose '{image.name}' to use them."
        inform(message)

    def _ask_which(self, outcome: Which) -> None:
        name, chosen = QInputDialog.getItem(
            self._part,
            "Which image?",
            f"{outcome.path.name} is about several images. '{outcome.target.layer.name}' is:",
            list(outcome.names),
            0,
            False,
        )
        if chosen:
            work = partial(read_regions_file, outcome.path, outcome.target, name)
            self.reading.start(work, self._show)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Target:
    """The image for which regions are read, copied from its layer."""

    layer: Image  # Compared, never read
    name: str  # The image's file name, else the layer's
    source: Path | None  # The file that it was opened from
    shape: tuple[int, ...]  # Of its data, without colours
    cut: Slice  # The plane shown; rows before columns
    axes: tuple[str, ...]  # Names of the data's axes
    channels: int = 1  # Layers of its file, or colours

    @classmethod
    def of(cls, layer: Image, view: ViewPoint, layers: Sequence[Layer] = ()) -> Target:
        """Copy it; ``layers`` are those of the viewer, which can show the channels of one file."""
        grid = Grid.of(layer, view)
        seen = slice_of(grid, view)
        seen.check(grid)
        # Rows of a file are rows of the data, however the viewer transposes them.
        rows, columns = sorted(seen.axes)
        cut = replace(seen, axes=(rows, columns))
        path = path_of(layer)
        if getattr(layer, "rgb", False):
            channels = 3
        elif path:
            channels = sum(path_of(other) == path for other in layers)
        else:
            channels = 0
        return cls(
            layer=layer,
            name=Path(path).name if path else str(layer.name),
            source=Path(path) if path else None,
            shape=grid.shape,
            cut=cut,
            axes=axis_names(cut, view),
            channels=channels,
        )

    @property
    def plane(self) -> tuple[int, int]:
        """Pixels (H, W) of a plane."""
        rows, columns = self.cut.axes
        return self.shape[rows], self.shape[columns]

    @property
    def others(self) -> dict[str, int]:
        """Names and sizes of the axes across planes."""
        return {self.axes[axis]: self.shape[axis] for axis in self.cut.others}


@dataclass(frozen=True, slots=True, eq=False)
class Which:
    """A file about several images; the user must choose one."""

    path: Path
    target: Target
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Read:
    """Regions of a file."""

    path: Path
    target: Target
    # Data of a Labels layer, and what else to give it
    layer: tuple[npt.NDArray[np.integer], dict[str, Any]]
    cut: Slice  # Their plane; index 0 if they have all planes
    message: str  # What was read, and what was changed or left out

    def place(self) -> dict[str, Any]:
        """Return the transform of the layer: that of the image."""
        height, width = self.target.plane
        plane = Plane(cut=self.cut, shape=(height, width))
        box = (0.0, 0.0, float(height), float(width))
        return box_transform(self.target.layer, plane, box, (height, width))


def read_regions_file(path: Path, target: Target, chosen: str = "") -> Read | Which:
    """Read regions for an image; for a worker."""
    if not is_annotations(path):
        annotations = _label_image(path, target)
    else:
        geo = georeference_of(target.source, target.plane)
        try:
            annotations = read_annotations(path, target.plane, image=chosen or target.name, geo=geo)
        except ManyImagesError as error:
            if chosen or not error.names:
                size = f"{target.plane[0]} x {target.plane[1]} px"
                raise InputError(f"{error} None of them has {size}.") from None
            return Which(path, target, error.names)
    return _laid(path, target, annotations)


def _label_image(path: Path, target: Target) -> Annotations:
    """Regions of a label image, with names from our class list next to it, if any."""
    from ...regions.label_images import PlaneRegions
    from ...regions.region_reading import read_masks

    names = read_names(path)
    notes: list[str] = []
    planes = _planes(path, target, names.planes)
    if planes is None:
        planes = [PlaneRegions((), read_masks(path, target.plane, on_note=notes.append))]
    items = []
    for plane in planes:
        for region in plane.regions:
            label, score = names.regions.get((plane.position, region.id), ("", None))
            items.append(
                Annotation(
                    region=region,
                    label=label,
                    score=score,
                    position=plane.position,
                    source_id=region.source_id,
                )
            )
    return Annotations(shape=target.plane, items=tuple(items), notes=tuple(notes))


def _planes(path: Path, target: Target, listed: Sequence[Position]) -> list[PlaneRegions] | None:
    """Regions by plane if the pages of a file are planes; None if they are masks."""
    from ...images.ome_zarr import is_zarr
    from ...images.opening import open_labels
    from ...regions.label_images import PlaneRegions, check_size, matched_axes, regions_by_plane

    if path.suffix.lower() not in (".tif", ".tiff", ".npy") and not is_zarr(path):
        return None
    with open_labels(path) as labels:
        # Our own files have a list of their planes beside them.
        is_ours = any(listed) and len(listed) == prod(labels.pages.values())
        matched = matched_axes(labels, target.others) if labels.pages else None
        if not is_ours and not matched:
            return None
        check_size(labels.shape, str(path), target.plane)
        axes = labels.axes.index("y"), labels.axes.index("x")
        names = tuple((matched or {}).get(name, name) for name in labels.axes)
        planes = regions_by_plane(labels.levels[0], names=names, axes=axes, mode="each")
        placed = []
        for plane in planes:
            if is_ours:  # the pages are the planes with regions, in the order of the list
                page = max((index for _, index in plane.position), default=0)
                position = listed[page]
            else:
                position = tuple(
                    (name, index) for name, index in plane.position if name in target.others
                )
            placed.append(PlaneRegions(position, plane.regions))
        return placed


def _laid(path: Path, target: Target, annotations: Annotations) -> Read:
    """Draw regions on arrays with the axes of the image."""
    quoted = f"'{target.layer.name}'"
    annotations = on_axes(annotations, target.others, path, quoted, target.channels)
    used = dict.fromkeys(name for item in annotations.items for name, _ in item.position)
    axes = {target.axes[axis]: axis for axis in target.cut.others if target.axes[axis] in used}
    rows, columns = target.cut.axes
    shape = [1] * len(target.shape)
    shape[rows], shape[columns] = target.plane
    index = list(target.cut.index)
    for axis in axes.values():
        shape[axis], index[axis] = target.shape[axis], 0
    for item in annotations.items:
        for name, plane_index in item.position:
            if not 0 <= plane_index < shape[axes[name]]:
                raise InputError(
                    f"{path} has region {item.region.id} on plane {plane_index}, and {quoted} has "
                    f"{shape[axes[name]]} planes along {name}."
                )
    layer = layer_of(annotations, tuple(shape), axes, target.cut.axes, path.stem)
    message = f"{counted(len(annotations.items), 'region')} of {path.name}."
    if COVERED in layer[1]["metadata"]:
        message += " Some overlap: the smaller ones lie on top, and each is used whole."
    cut = replace(target.cut, index=tuple(index))
    return Read(path, target, layer, cut, f"{message} {annotations.notes_text}".strip())
