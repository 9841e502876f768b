"""From layers to the tasks of a run: which planes, which regions on them.

`RunInput` is made on the main thread and holds no reference to a layer; `RunInput.tasks` does the
work and belongs in a worker.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...base.errors import EmptyMaskError, InputError
from ...base.identity import Position, RegionIdentity, identify_all
from ...base.regions import Region, Regions
from ...base.wording import listed
from ...images.lazy_plane import ArrayLike
from ...images.opening import FileArray, nodata_of, without_masked
from ...images.tiff import without_nodata
from ...pipeline.run import PlaneTask
from ...regions.affine import Affine2D
from ...regions.drawn_shapes import Shape, lie_outside, rasterise
from ...regions.label_images import (
    areas_of_labels,
    plane_of_labels,
    regions_by_plane,
    regions_of_labels,
)
from ...results.recipe import Difference, Recipe
from .coordinates import (
    Grid,
    Plane,
    Slice,
    ViewPoint,
    axis_names,
    pixels_to_layer,
    plane_of,
    slice_of,
)
from .input_pictures import LayerCopy, Picture
from .label_layers import COVERED, Covered, CoveredOnPlanes, source_facts, uncovered
from .layer_facts import copied, file_of, is_shapes, levels_of, shapes_on_plane
from .rasterise import regions_on_plane
from .viewer_protocols import RegionsLayer

Planes = Literal["shown", "largest", "each"]
PictureDigest = tuple[frozenset[str], str]  # Of `picture_digest`


@dataclass(frozen=True, slots=True, eq=False)
class PlaneFinder:
    """Finds the image's plane of a result by its position."""

    view: ViewPoint  # The view at the start of the run
    image: Grid
    regions: Grid
    # Positions are indices of the regions' other axes; else all results lie on the plane shown
    all_planes: bool

    @property
    def axes(self) -> tuple[int, int]:
        """The image's axes of rows and columns."""
        return slice_of(self.image, self.view).axes

    @property
    def others(self) -> tuple[int, ...]:
        """The regions' axes across planes."""
        return slice_of(self.regions, self.view).others

    @property
    def description(self) -> list[str]:
        """Where the results lie, for the record."""
        if self.all_planes:
            return ["all planes"]
        return [f"{name} {place}" for name, place in self.plane(()).position]

    def plane(self, position: Position) -> Plane:
        """Return the plane of the image."""
        return plane_of(self.image, self.view_at(position))

    def view_at(self, position: Sequence[tuple[str, int]]) -> ViewPoint:
        """Return the view of that plane."""
        if not self.all_planes or not position:
            return self.view
        across = list(self.others)
        data = np.zeros(self.regions.ndim)
        data[across] = [index for _, index in position]
        # A layer with fewer dimensions lies on the trailing ones of the viewer.
        shift = len(self.view.point) - self.regions.ndim
        world = self.regions.to_world(data)[across]
        return self.view.at([axis + shift for axis in across], world)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ShapesCopy:
    """The shapes of the plane shown."""

    grid: Grid
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LabelsCopy:
    """A Labels layer; ``pinned`` where only the plane shown was copied.

    Its ``file`` may say which value, and which pixels, stand for no region; ``facts`` are what the
    file that a region came from says about it; ``covered`` are regions that the labels do not show
    whole.
    """

    grid: Grid
    data: ArrayLike
    pinned: bool
    file: Path | None = None
    facts: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    covered: CoveredOnPlanes = field(default_factory=dict)

    @property
    def values(self) -> tuple[ArrayLike, float | None]:
        """The labels, 0 where the file's mask hides them; and a value that stands for no region.

        Where the labels are lazy, that value is 0 already.
        """
        shown = without_masked(self.data, self.file, self.grid.shape, labels=True)
        nodata = nodata_of(self.file, self.grid.shape)
        if nodata and self.file is not None and not isinstance(shown, np.ndarray):
            return FileArray(shown, self.file, "labels", nodata), None
        return shown, nodata

    def covered_on(self, cut: Slice) -> Mapping[int, Covered]:
        """Return the regions of a plane that the labels do not show whole."""
        covered = self.covered.get(cut.index_of_others, {})
        rows, columns = cut.axes
        if rows < columns:
            return covered
        return {label: region.turned for label, region in covered.items()}


def copy_regions(
    layer: RegionsLayer, view: ViewPoint, *, shown_only: bool = True, snapshot: bool = True
) -> ShapesCopy | LabelsCopy:
    """Copy the regions of a layer, or only those of the plane shown."""
    grid = Grid.of(layer, view)
    if is_shapes(layer):
        return ShapesCopy(grid=grid, shapes=shapes_on_plane(layer, grid, view))
    cut = slice_of(grid, view) if shown_only else None
    if cut is not None:
        cut.check(grid)
    data = copied(levels_of(layer)[0], cut, snapshot=snapshot)
    metadata = getattr(layer, "metadata", {})
    return LabelsCopy(
        grid=grid,
        data=data,
        pinned=shown_only and isinstance(data, np.ndarray),
        file=file_of(layer),
        facts=source_facts(getattr(layer, "features", None), metadata),
        covered=metadata.get(COVERED, {}),
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RunInput:
    """Images and regions of a run."""

    view: ViewPoint  # What was shown when it was made
    picture: Picture
    regions: ShapesCopy | LabelsCopy
    # The plane shown, or all planes of a Labels layer: each label on the one where it has most
    # pixels, or on every one
    planes: Planes = "shown"
    # Label values or rows of shapes that are wanted; None takes all
    only: frozenset[int] | None = None
    merge: bool = False  # Those chosen become one region (on each plane)

    @property
    def size(self) -> int:
        """Number of label pixels to read to find the regions."""
        if isinstance(self.regions, ShapesCopy):
            return 0
        grid = self.regions.grid
        axes = slice_of(grid, self.view).axes if self.planes == "shown" else range(grid.ndim)
        return math.prod(grid.shape[axis] for axis in axes)

    @property
    def finder(self) -> PlaneFinder:
        """The plane finder for results; holds no pixels."""
        return PlaneFinder(self.view, self.picture.grid, self.regions.grid, self.planes != "shown")

    def tasks(self, on_plane: Callable[[], None] = lambda: None) -> list[PlaneTask]:
        """Find the regions of every plane."""
        if self.planes == "shown":
            plane = plane_of(self.picture.grid, self.view)
            regions = self._merged(self._regions(plane, self.view))
            source = self.picture.source(plane, self.view)
            return [PlaneTask(source=source, regions=regions, position=plane.position)]
        return self._all_planes(self.planes, on_plane)

    def left_out(self, tasks: Sequence[PlaneTask]) -> str:
        """Return a sentence about labels that lie outside the image; "" without any."""
        # Shapes outside are refused, and so are chosen labels that are missing.
        chosen = self.merge or self.only is not None
        if self.planes != "shown" or chosen or isinstance(self.regions, ShapesCopy):
            return ""
        labels = self._labels(self.regions, self.view)
        regions = tasks[0].regions
        plane = plane_of(self.picture.grid, self.view)
        to_labels = pixels_to_layer(self.picture.grid, plane, self.regions.grid, self.view)
        if to_labels.is_identity() and tuple(labels.shape) == plane.shape:
            return ""
        outside = len(areas_of_labels(labels)) - len(regions)
        if outside and not len(regions):
            raise EmptyMaskError(
                f"{lie_outside(outside)}; move the layer onto it, or choose their image."
            )
        if outside <= 0:
            return ""
        return f"{lie_outside(outside)} and {'are' if outside > 1 else 'is'} left out."

    def _all_planes(
        self, mode: Literal["largest", "each"], on_plane: Callable[[], None]
    ) -> list[PlaneTask]:
        labels = self.regions
        if isinstance(labels, ShapesCopy):
            raise InputError(
                "Shapes work only on the plane shown; choose 'the plane shown' in Settings > "
                "Regions and windows, or a Labels layer."
            )
        grid, cut = labels.grid, slice_of(labels.grid, self.view)
        names = axis_names(cut, self.view)
        planes = regions_by_plane(
            without_nodata(*labels.values),
            names=names,
            axes=cut.axes,
            mode=mode,
            only=self.only,
            on_plane=on_plane,
        )
        tasks = []
        for item in planes:
            on_plane()
            view = self.finder.view_at(item.position)
            try:
                plane = plane_of(self.picture.grid, view)
            except InputError as error:
                where = ", ".join(f"{name} {place}" for name, place in item.position)
                raise InputError(
                    f"The labels' plane {where} lies outside the image "
                    f"'{self.picture.grid.name}'; choose 'the plane shown' in Settings > "
                    "Regions and windows."
                ) from error
            regions = item.regions
            covered = labels.covered_on(slice_of(grid, view))
            to_labels = pixels_to_layer(self.picture.grid, plane, grid, view)
            if covered or not (to_labels.is_identity() and regions.shape == plane.shape):
                hidden = {label for label, region in covered.items() if region.seen is None}
                if self.only is not None:
                    hidden &= self.only
                regions = self._regions(plane, view, frozenset(regions.ids) | hidden)
            if len(regions):
                source = self.picture.source(plane, view)
                position = item.position
                tasks.append(
                    PlaneTask(source=source, regions=self._merged(regions), position=position)
                )
        return tasks

    def _regions(
        self, plane: Plane, view: ViewPoint, only: frozenset[int] | None = None
    ) -> Regions:
        only = only or self.only
        to_regions = pixels_to_layer(self.picture.grid, plane, self.regions.grid, view)
        if isinstance(self.regions, ShapesCopy):
            shapes = self.regions.shapes
            _refuse_missing(only, {shape.id for shape in shapes}, "shape")
            wanted = tuple(shape for shape in shapes if only is None or shape.id in only)
            return rasterise(wanted, to_regions, plane.shape)
        labels = self._labels(self.regions, view)
        regions = regions_on_plane(labels, to_regions, plane.shape, only)
        covered = self.regions.covered_on(slice_of(self.regions.grid, view))
        if covered:
            below = covered.keys() if only is None else covered.keys() & only
            by_label = {region.id: region for region in regions}
            # Whole regions take the place of what the labels show of them.
            for region in uncovered(regions_of_labels(labels, only=below), covered):
                if region.id in below:
                    for placed in _placed(region, to_regions, plane.shape):
                        by_label[placed.id] = placed
            regions = Regions(plane.shape, [by_label[label] for label in sorted(by_label)])
        if self.planes == "shown":
            _refuse_missing(only, set(regions.ids), "label")
        return regions

    def _labels(self, labels: LabelsCopy, view: ViewPoint) -> ArrayLike:
        cut = slice_of(labels.grid, view)
        index = [0] * len(cut.index) if labels.pinned else list(cut.index)
        values, nodata = labels.values
        plane = plane_of_labels(values, axes=cut.axes, index=index)
        regions: ArrayLike = without_nodata(plane, nodata)
        return regions

    def _named(self, regions: Regions) -> Regions:
        facts = {} if isinstance(self.regions, ShapesCopy) else self.regions.facts
        if not facts:
            return regions
        named = [replace(region, **facts.get(region.id, {})) for region in regions]
        return Regions(regions.shape, named)

    def _merged(self, regions: Regions) -> Regions:
        regions = self._named(regions)
        if not self.merge or (self.planes != "shown" and len(regions) < 2):
            return regions
        if len(regions) < 2:
            raise InputError(
                f"Merging needs two regions or more; {len(regions)} is chosen. Pick another one, "
                "or do not merge."
            )
        return regions.merged([regions.ids])


def _placed(region: Region, to_labels: Affine2D, shape: tuple[int, int]) -> Iterable[Region]:
    """Return a region of a label image on the pixels of an image's plane."""
    if to_labels.is_identity() and region.bbox[2] <= shape[0] and region.bbox[3] <= shape[1]:
        return [region]
    moved = Affine2D(to_labels.matrix, to_labels.offset - region.bbox[:2])
    return regions_on_plane(region.mask * np.int32(region.id), moved, shape)


def identities(tasks: list[PlaneTask]) -> tuple[RegionIdentity, ...]:
    """Return the identity of each region of a run, to recognise it in later sessions."""
    identified: list[RegionIdentity] = []
    for task in tasks:
        identified += identify_all(task.regions, task.position)
    return tuple(identified)


def _refuse_missing(only: frozenset[int] | None, ids: set[int], kind: str) -> None:
    missing = sorted((only or frozenset()) - ids)
    if missing:
        raise InputError(
            f"There is no {kind} {listed(missing)} on this plane of the image; choose others in "
            "Settings > Regions and windows."
        )


def shown_to_model(run_input: RunInput, digest: PictureDigest | None = None) -> Recipe:
    """Return what a run shows the model of an image; ``digest`` is that of its picture, if known.

    The view of a run on all planes is independent of the plane shown.
    """
    finder, view = run_input.finder, run_input.view
    if finder.all_planes:
        view = finder.view_at([("", 0)] * len(finder.others))
    pixels, looks = digest or picture_digest(run_input.picture)
    return Recipe(image={"pixels": pixels, "view": view, "looks": looks})


def changes_pixels(difference: Difference) -> bool:
    """Return whether a difference is one of pixels, and not of how they are displayed."""
    if difference.key == "pixels":  # Of each layer; a channel that is hidden has not changed
        before, after = difference.value, difference.other
        return not (before <= after or after <= before)
    return difference.key == "view"


def picture_digest(picture: Picture) -> PictureDigest:
    """Return digests of the pixels of each layer, and of all that affects how they look."""
    pixels: dict[int, str] = {}
    without_pixels: dict[int, LayerCopy] = {}
    for layer in (picture.image, *(picture.shown or ())):
        if id(layer) not in pixels:  # the image is one of those shown, too
            pixels[id(layer)] = _digest(layer.levels)
            without_pixels[id(layer)] = replace(layer, levels=())
    shown = None
    if picture.shown is not None:
        shown = tuple(without_pixels[id(layer)] for layer in picture.shown)
    bare = replace(picture, image=without_pixels[id(picture.image)], shown=shown)
    looks = _digest((bare, tuple(pixels.values())))
    return frozenset(pixels.values()), looks


def _digest(value: object) -> str:
    hasher = hashlib.blake2b(digest_size=16)
    _feed(hasher, value)
    return hasher.hexdigest()


def _feed(hasher: hashlib.blake2b, value: object) -> None:
    if isinstance(value, np.ndarray):
        hasher.update(f"{value.shape}{value.dtype}".encode())
        hasher.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    elif is_dataclass(value):
        for field in fields(value):
            if not (isinstance(value, Grid) and field.name == "name"):  # pixels have no name
                _feed(hasher, getattr(value, field.name))
    elif isinstance(value, tuple):
        for item in value:
            _feed(hasher, item)
    else:
        # Lazy arrays are identified by object.
        lazy = hasattr(value, "shape") and not isinstance(value, np.generic)
        hasher.update(repr(id(getattr(value, "held", value)) if lazy else value).encode())
