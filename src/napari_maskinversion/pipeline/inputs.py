"""Files of an image and its regions, read as planes with regions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from ..base.errors import InputError, NoRegionsError
from ..base.identity import file_sha256, plane_text
from ..base.regions import Regions
from ..base.units import Units, short_unit
from ..base.wording import listed
from ..images.ome_zarr import is_zarr, label_image
from ..images.opening import open_image
from ..images.stack import Stack
from ..language.labels.label import Label
from ..language.labels.presets import vocabulary_of
from ..language.labels.vocabulary import Vocabulary
from ..regions.annotations.annotation import Annotations, on_axes
from ..regions.annotations.annotation_reading import is_annotations, read_annotations
from ..regions.label_images import PlaneRegions, has_planes, read_plane_regions, series_of
from ..regions.region_reading import mask_files, mask_notes, read_masks
from ..results.settings import RunSettings
from .run import PlaneTask

# Reading a larger file once more only for its hash can take longer than the run.
_HASHED: Final = 2_000_000_000
_NAMED: Final = 8  # names in a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Planes with their regions, and their image; close it after the run."""

    stack: Stack
    tasks: list[PlaneTask]
    units: Units | None
    notes: str = ""  # regions that were changed or left out
    names: Mapping[str, str] = field(default_factory=dict)
    """Names that the file of regions lists, used or not, with their colours; "" for none."""
    coco_facts: Mapping[str, Any] = field(default_factory=dict)
    """What a COCO file says, see `CocoFacts`."""


def open_inputs(
    image: Path,
    masks: Path,
    settings: RunSettings,
    on_note: Callable[[str], object] = lambda _: None,
    read: Callable[..., Annotations] = read_annotations,
) -> Inputs:
    """Open an image and its regions: the planes, channels and units that the settings name.

    ``on_note`` is called as by `open_stack`, ``read`` instead of `read_annotations`.
    """
    planes = settings.planes
    wanted = channels_of(settings)
    ids = settings.only_ids
    groups = settings.merge_ids
    stack = open_stack(image, settings, on_note)
    try:
        position = stack.position(settings.plane)
        units = units_of(stack, settings)
        names: Mapping[str, str] = {}
        numbers: dict[str, Any] = {}
        if is_annotations(masks):
            if planes is not None:
                raise InputError(f"{masks} stores the plane of each region; leave --planes out.")
            geo = None if units is None else units.geo
            name = image.as_posix()
            number = None
            if len(stack.images) > 1:
                number = stack.series
            annotated = read(masks, stack.shape, image=name, series=number, geo=geo)
            annotated = on_axes(annotated, stack.plane_axes, masks, stack.name, stack.channel_count)
            on_planes = _on_planes(annotated, stack, position, masks, ids)
            notes = annotated.notes_text
            names = annotated.vocabulary
            numbers = annotated.coco.values
        else:
            said: list[str] = []
            on_planes = _of_label_image(masks, stack, position, settings, said.append)
            notes = " ".join([*said, *mask_notes(masks)])
        if groups and len(on_planes) > 1:
            raise InputError(
                "--merge joins regions of one plane; choose it by --plane and leave --planes out."
            )
        tasks = []
        for item in on_planes:
            tasks.append(
                PlaneTask(
                    source=stack.source(dict(item.position), wanted),
                    regions=item.regions.merged(groups) if groups else item.regions,
                    position=item.position,
                )
            )
    except BaseException:
        stack.close()
        raise
    return Inputs(
        stack=stack, tasks=tasks, units=units, notes=notes, names=names, coco_facts=numbers
    )


def open_stack(
    image: Path, settings: RunSettings, on_note: Callable[[str], object] = lambda _: None
) -> Stack:
    """Open an image.

    ``on_note`` is called with a line that says which one of several is used, with one that names
    the channels if none are chosen, and with the notes of the stack.
    """
    stack = open_image(image, settings.series)
    if len(stack.images) > 1 and settings.series is None:
        on_note(
            f"{image} holds {len(stack.images)} images ({listed(stack.images, _NAMED)}); the first "
            "one is used. Choose another with --series 1 and so on."
        )
    for note in stack.notes:
        on_note(note)
    names = stack.channel_names
    if len(names) > 1 and settings.channels is None:
        on_note(
            f"{image} has {len(names)} channels ({listed(names, _NAMED)}); the model sees all of "
            "them in one picture of colours. Choose some with --channels."
        )
    return stack


def channels_of(settings: RunSettings) -> list[str] | None:
    """Return the channels by number or name; None for all."""
    if settings.channels is None:
        return None
    return settings.channels.split(",")


def _of_label_image(
    masks: Path,
    stack: Stack,
    position: Mapping[str, int],
    settings: RunSettings,
    on_note: Callable[[str], object],
) -> list[PlaneRegions]:
    mode = settings.planes
    ids = settings.only_ids
    series = series_of(masks, stack)
    if mode is None and not has_planes(masks, stack, series):
        stack.source(position, channels_of(settings))  # a plane that is not chosen is refused first
        place = tuple((name, position[name]) for name in stack.plane_axes if name in position)
        regions = read_masks(masks, stack.shape, series=series, on_note=on_note)
        return [PlaneRegions(place, regions if ids is None else regions.only(ids))]
    on_planes = read_plane_regions(masks, stack, position, mode=mode, only=ids, series=series)
    _check_there(ids, on_planes, masks)
    return on_planes


def _check_there(ids: set[int] | None, on_planes: Sequence[PlaneRegions], path: Path) -> None:
    gone = set(ids or ())
    for item in on_planes:
        gone.difference_update(item.regions.ids)
    if gone:
        raise InputError(f"There is no region {listed(sorted(gone))} in {path}.")


def _on_planes(
    annotated: Annotations,
    stack: Stack,
    position: Mapping[str, int],
    path: Path,
    ids: set[int] | None,
) -> list[PlaneRegions]:
    """Put regions on the planes that their file names, if these planes are chosen."""
    on_planes: list[PlaneRegions] = []
    for position_in_file, regions in annotated.planes.items():
        try:
            places = stack.position(plane_text(position_in_file))
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        if any(places.get(axis, number) != number for axis, number in position.items()):
            continue
        places |= position
        stack.source(places)  # a plane that is not chosen is refused here
        kept = [region for region in regions if ids is None or region.id in ids]
        if kept:
            place = tuple((name, places[name]) for name in stack.plane_axes if name in places)
            on_planes.append(PlaneRegions(place, Regions(regions.shape, kept)))
    _check_there(ids, on_planes, path)
    if not on_planes:
        raise NoRegionsError(f"{path} has no region on the chosen plane.")
    return on_planes


def units_of(stack: Stack, settings: RunSettings) -> Units | None:
    """Return the size of pixels that the settings or else the file state."""
    size = settings.pixel_size
    if size is None:
        return stack.units
    geo = None if stack.units is None else stack.units.geo
    return Units(pixel=(size, size), unit=short_unit(settings.unit), geo=geo)


def vocabulary_in(
    masks: Path, names: Mapping[str, str], templates: Sequence[str], threshold: float | None
) -> Vocabulary | None:
    """Return the names in a file of regions as labels; None without any."""
    if not names:
        return None
    try:
        labels = Vocabulary.of([Label(name, color=color) for name, color in names.items()])
        return vocabulary_of(labels, templates, threshold)
    except InputError as error:
        raise InputError(
            f"The names in {masks} cannot be the labels: {error} Or add --labels."
        ) from None


def input_files(*paths: Path | str | None) -> list[Path]:
    """Return the files that a command reads, and the images in its folders.

    Texts that are no paths, such as labels or a model's name, are left out.
    """
    files: list[Path] = []
    for path in paths:
        if path is None:
            continue
        if os.path.isfile(path):  # noqa: PTH113 - a long list of labels is no path, and no error
            files.append(Path(path))
        elif os.path.isdir(path):  # noqa: PTH112
            files.extend(mask_files(Path(path)))
    return files


def origin(
    image: Path,
    masks: Path | None,
    settings: RunSettings,
    stack: Stack,
    coco_facts: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return names and hashes of the inputs. Call it before a run: files may be gone afterwards.

    With them what a COCO file says about labels and image, which an export to COCO keeps.

    Files over 2 GB and zarr folders have name, size and time of change instead of a hash.
    """
    about = _describe(image)
    regions = {}
    if masks is not None:
        if is_zarr(masks) or not masks.is_dir():
            files = []
        else:
            files = mask_files(masks)
        one_by_one = {str(number): _describe(file) for number, file in enumerate(files, 1)}
        folder = {"folder": masks.resolve().name, "regions": one_by_one}
        regions = {"masks": folder if files else _describe(label_image(masks, stack.series))}
    if len(stack.images) > 1:
        about |= {"series": stack.series, "image_in_file": stack.images[stack.series]}
    return {
        "image": about,
        **regions,
        "channels": settings.channels,
        "channels_used": stack.used_channels(channels_of(settings)),
        **coco_facts,
    }


def _describe(file: Path) -> dict[str, Any]:
    """Name and hash of an input."""
    about = file.stat()
    if file.is_dir():
        return {"folder": file.resolve().name, "modified": round(about.st_mtime)}
    if about.st_size > _HASHED:
        return {"file": file.name, "bytes": about.st_size, "modified": round(about.st_mtime)}
    return {"file": file.name, "sha256": file_sha256(file)}
