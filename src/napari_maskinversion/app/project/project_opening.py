"""One image of a project as arrays for layers; for a worker. No Qt, no napari."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError, MaskInversionError
from ...base.identity import ImageIdentity, Position, RegionIdentity, identify, identify_image
from ...base.regions import Region
from ...base.wording import one_line
from ...batch.finished import differences, is_damaged
from ...batch.image_task import ImageTask
from ...batch.opened import OpenProject
from ...batch.project_decisions import counted
from ...batch.project_index import archive_file
from ...images.channels import auto_limits, default_colours
from ...images.lazy_plane import ArrayLike, LazyPlane
from ...images.opening import open_image
from ...images.plane_source import read_reduced
from ...images.stack import Stack
from ...library.thumbnails import as_bytes
from ...pipeline.inputs import open_inputs
from ...regions.annotations.annotation import binary_mask
from ...results.export.archive import open_archive
from ...review.reporting import decisions_of, identities_of
from ...review.stored_images import Summary
from ..layer_input.label_layers import layer_of_regions, why_no_layer

if TYPE_CHECKING:
    import pandas as pd

    from ...results.export.bundle import Bundle

_READ: Final = 512 * 2**20  # bytes; larger images are read where they are looked at
_DRAWN: Final = 4_096  # pixels of a side that napari draws without a pause
_MOST_THUMBNAIL: Final = 60_000_000  # pixels of the smallest level; more would take too long


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ImageLayer:
    """One layer of an image: all of it, or one channel."""

    data: ArrayLike | list[ArrayLike]
    only_first: bool = False  # Whether its other levels are for napari, and no part of the file
    options: dict[str, Any]  # For ``viewer.add_image``


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class OpenedImage:
    """An image with its regions and results."""

    name: str
    file: Path
    layers: tuple[ImageLayer, ...]
    series: int = 0  # Which image of the file
    # Of the whole image, where its layers are channels: decisions are about all of it
    identity: ImageIdentity | None = None
    labels: npt.NDArray[Any]  # Its regions, on the data of the layers
    about: dict[str, Any] = field(default_factory=dict)  # What labels cannot say, for their layer
    identities: tuple[RegionIdentity, ...] = ()  # The regions as their layer has them
    planes: Literal["largest", "each"] | None = None  # Those that a batch takes regions from
    # Its results; ``table`` and ``results_of`` are those of their regions
    bundle: Bundle | None = None
    table: pd.DataFrame | None = None
    results_of: tuple[RegionIdentity, ...] = ()
    is_whole: bool = True  # Whether the results are of all regions, as they are now
    summary: Summary = field(default_factory=Summary)
    # Why its regions or results cannot be shown, or may be those of another image; one line
    problem: str = ""


def is_computed(task: ImageTask | None) -> bool:
    """Return whether there are results of a task, made from what is there now.

    Captions make no difference: only a batch adds them.
    """
    return task is not None and set(differences(task)) <= {"captions"} and not is_damaged(task)


def open_project_image(project: OpenProject, name: str) -> OpenedImage:
    """Read an image with its regions, and its results if they are there."""
    file = project.path(name)
    problem, series = "", project.settings_of(name).series
    with open_image(file, series) as stack:
        layers = image_layers_of(stack, file)
        shape = _shape(stack)
        axes = _rows_and_columns(stack)
        whole = identify_image(file.name, stack.levels[0]) if "c" in stack.axes else None
        bundle = table = None
        regions: list[tuple[Position, Region]] = []
        results_of: list[RegionIdentity] = []
        summary, is_whole = Summary(), True
        try:
            bundle, is_whole = _results(project, name)
            if bundle is not None:
                summary = counted(bundle, decisions_of(bundle, file))
                results_of, table = identities_of(bundle), bundle.results.to_frame()
            if bundle is not None and is_whole:
                regions = _regions_of(bundle)
            else:
                regions, problem = _regions(project, name)
                summary = replace(summary, regions=len(regions))
        except MaskInversionError as error:
            problem = one_line(error)
        if why := why_no_layer(regions, shape):
            regions, bundle, table = [], None, None
            problem = f"The regions have no layer: {why}; run it with batch."
        regions = [(place, _as_drawn(region)) for place, region in regions]
        labels, about = layer_of_regions(regions, shape, axes)
    planes = project.settings_of(name).planes
    if planes is None and len({position for position, _ in regions}) > 1:
        planes = "each"
    return OpenedImage(
        name=name,
        file=file,
        layers=layers,
        series=series or 0,
        identity=whole,
        labels=labels,
        about=about,
        identities=tuple(identify(region, place) for place, region in regions),
        planes=planes,
        is_whole=is_whole,
        bundle=bundle,
        table=table,
        results_of=tuple(results_of),
        summary=summary,
        problem=problem,
    )


def _results(project: OpenProject, name: str) -> tuple[Bundle | None, bool]:
    """Return the results of an image, if there are any, and whether they are of its regions."""
    file, task = archive_file(project, name), project.task(name)
    if file is None or task is None:
        return None, True
    other = set(differences(task))
    if other & {"image", "files", "version"}:
        return None, True
    return open_archive(file), "regions" not in other


def _regions_of(bundle: Bundle) -> list[tuple[Position, Region]]:
    """Return the regions of results, with what their file said about them."""
    results = {(result.position, result.id): result for result in bundle.results.regions}
    regions = []
    for (position, number), mask in bundle.masks.items():
        region = mask.unpack()
        result = results.get((position, number))
        if result is not None:
            region = replace(
                region,
                name=result.source_label,
                source_id=result.source_id,
                values=result.source_values,
            )
        regions.append((position, region))
    return regions


def _regions(project: OpenProject, name: str) -> tuple[list[tuple[Position, Region]], str]:
    """Return the regions of an image, and what the user should know about their file."""
    file = project.regions(name)
    if file is None:
        return [], ""
    inputs = open_inputs(project.path(name), file, project.settings_of(name))
    with inputs.stack:
        regions = []
        for task in inputs.tasks:
            for region in task.regions:
                regions.append((task.position, region))
    return regions, inputs.notes


def _names(stack: Stack) -> tuple[str, ...]:
    return tuple(axis for axis in stack.axes if axis not in ("c", "s"))


def _shape(stack: Stack) -> tuple[int, ...]:
    sizes = zip(stack.axes, stack.levels[0].shape, strict=True)
    return tuple(int(size) for axis, size in sizes if axis not in ("c", "s"))


def _rows_and_columns(stack: Stack) -> tuple[int, int]:
    names = _names(stack)
    return names.index("y"), names.index("x")


def image_layers_of(stack: Stack, file: Path) -> tuple[ImageLayer, ...]:
    """Return a layer, or one for each channel, with the contrast that a run uses."""
    channels = stack.levels[0].shape[stack.axes.index("c")] if "c" in stack.axes else 1
    names = stack.channel_names or [""]
    scale, units = _scale(stack)
    layers = []
    for number in range(channels):
        levels = [_channel(level, stack.axes, number) for level in stack.levels]
        finest, only_first = levels[0], False
        if len(levels) == 1 and isinstance(finest, np.ndarray):
            levels = _overviews(finest, _rows_and_columns(stack))
            only_first = len(levels) > 1
        data = levels if len(levels) > 1 else finest
        options: dict[str, Any] = {
            "name": f"{file.name} {names[number]}".strip(),
            "rgb": "s" in stack.axes,
            "scale": scale,
            "axis_labels": _names(stack),
        }
        if units:
            options["units"] = units
        if "s" not in stack.axes:
            options["contrast_limits"] = _limits(stack, number)
        if channels > 1:
            color = default_colours(channels)[number]
            options["colormap"] = np.array([[0, 0, 0, 1], [*color, 1]], np.float32)
            options["blending"] = "additive" if number else "translucent_no_depth"
        layers.append(ImageLayer(data=data, only_first=only_first, options=options))
    return tuple(layers)


def _overviews(pixels: npt.NDArray[Any], axes: tuple[int, int]) -> list[ArrayLike]:
    """Return views of an image with fewer pixels, as napari draws no more than the window has."""
    levels: list[ArrayLike] = [pixels]
    side, step = max(pixels.shape[axis] for axis in axes), 1
    while side > _DRAWN * step:
        step *= 2
        key = [slice(None)] * pixels.ndim
        for axis in axes:
            key[axis] = slice(None, None, step)
        levels.append(pixels[tuple(key)])
    return levels


def _channel(level: ArrayLike, axes: Sequence[str], number: int) -> ArrayLike:
    if not isinstance(level, np.ndarray):
        if np.prod(level.shape, dtype=np.float64) * np.dtype(level.dtype).itemsize <= _READ:
            level = np.asarray(level[(slice(None),) * len(axes)])
        else:
            import dask.array

            chunks = getattr(level, "chunks", None) or "auto"
            level = dask.array.from_array(level, chunks=chunks)
    if "c" not in axes:
        return level
    index: list[int | slice] = [slice(None)] * len(axes)
    index[list(axes).index("c")] = number
    channel: ArrayLike = level[tuple(index)]
    return channel


def _limits(stack: Stack, number: int) -> tuple[float, float]:
    axes = (stack.axes.index("y"), stack.axes.index("x"))
    index = [int(side) // 2 for side in stack.levels[0].shape]  # the plane in the middle
    if "c" in stack.axes:
        index[stack.axes.index("c")] = number
    try:
        return auto_limits(LazyPlane(stack.levels, axes=axes, index=index, nodata=stack.nodata))
    except InputError:  # nothing to see; a run says so
        return 0.0, 1.0


def _scale(stack: Stack) -> tuple[list[float], tuple[str, ...]]:
    """Return the scale of each axis and their units, as far as a viewer knows them."""
    names, units = _names(stack), stack.units
    if units is None or units.pixel is None or units.geo is not None:
        return [1.0] * len(names), ()
    sizes = dict(zip(("y", "x"), units.pixel, strict=True))
    scale = [float(sizes.get(name, 1.0)) for name in names]
    if units.unit not in ("nm", "µm", "mm", "cm", "m"):
        return scale, ()
    return scale, tuple(units.unit if name in sizes else "pixel" for name in names)


def _as_drawn(region: Region) -> Region:
    """Return a region as labels can have it: without shares of pixels."""
    if region.mask.dtype == bool:
        return region
    hard = Region.from_mask(region.id, binary_mask(region), region.bbox[:2])
    return region if hard is None else replace(region, bbox=hard.bbox, mask=hard.mask)


def count_regions(project: OpenProject, name: str) -> int:
    """Return the number of regions of an image that has no results."""
    return len(_regions(project, name)[0])


def thumbnail(file: Path, series: int | None, side: int) -> npt.NDArray[np.uint8] | None:
    """Return an image in small, (h, w, 3); None if it is too large to be read for that."""
    with open_image(file, series) as stack:
        middle = {name: size // 2 for name, size in stack.plane_axes.items()}
        source = stack.source(middle)
        level = len(source.levels) - 1
        height, width = source.levels[level].shape
        if height * width > _MOST_THUMBNAIL:
            return None
        reduce = max(1, math.ceil(max(height, width) / side))
        whole = (-(-height // reduce) * reduce, -(-width // reduce) * reduce)
        small = as_bytes(read_reduced(source, level, (0, 0, *whole), reduce))
        return small if small.ndim == 3 else np.stack([small] * 3, axis=-1)
