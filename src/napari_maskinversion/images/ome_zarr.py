"""Open zarr folders: plain arrays, and OME-Zarr (0.4 and 0.5): pyramids, plates, labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod
from operator import gt
from pathlib import Path
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from ..base.errors import InputError
from ..base.units import Units
from .decoding import reading_errors
from .stack import Stack, check_series, stack_of

_MOST_COUNTED: Final = 20_000  # chunks; counting lists all of their files
_METADATA_FILES: Final = ("zarr.json", ".zarray", ".zgroup")
_NEWEST: Final = "0.5"  # version of OME-Zarr
_ITSELF: Final = ("",)


def is_zarr(path: Path) -> bool:
    """Return whether a path is a zarr array or group."""
    return path.is_dir() and any((path / name).is_file() for name in _METADATA_FILES)


def open_zarr(path: Path, number: int = 0) -> Stack:
    """Open a zarr folder; only its metadata is read.

    Of a store with several images (fields of a plate, positions, SpatialData) it is the one of
    this number.
    """
    node = _open(path)
    names = _images(node, path)
    check_series(path, number, names)
    stack = _of_node(_member(node, names[number]), path)
    stack = replace(stack, notes=_missing(stack.levels[0], path))
    if names == _ITSELF:
        return stack
    return replace(stack, images=names, series=number)


def images_in(path: Path) -> tuple[Path, ...]:
    """Return the images in a zarr folder: the folder itself, or each of those within."""
    with reading_errors(path, "image"):
        return tuple(path / name for name in _images(_open(path), path))


def is_plate(path: Path) -> bool:
    """Return whether a zarr folder is an OME-Zarr plate of wells."""
    with reading_errors(path, "image"):
        return "plate" in _about(_open(path))


def label_images(path: Path, number: int = 0) -> tuple[Path, ...]:
    """Return the label images that belong to an image of a zarr folder."""
    with reading_errors(path, "masks"):
        node = _open(path)
        names = _images(node, path)
        if names == _ITSELF:
            return _labels_beside(path, node)
        check_series(path, number, names)
        return _labels_beside(path / names[number], _member(node, names[number]))


def label_image(path: Path, number: int = 0) -> Path:
    """Return the label image that a path of regions stands for: itself, or the only one within."""
    labels = label_images(path, number) if is_zarr(path) else ()
    if len(labels) > 1:
        names = ", ".join(label.name for label in labels)
        raise InputError(
            f"{path} has {len(labels)} label images ({names}); choose one, such as {labels[0]}."
        )
    if labels:
        return labels[0]
    return path


def _open(path: Path) -> Any:
    import zarr

    return zarr.open(str(path), mode="r")


def _about(node: Any) -> Mapping[str, Any]:
    """Return the metadata of OME-Zarr, which version 0.5 keeps under a key of their own."""
    about: Mapping[str, Any] = node.attrs.get("ome", node.attrs)
    return about


def _member(node: Any, name: str) -> Any:
    if name:
        return node[name]
    return node


def _images(node: Any, path: Path) -> tuple[str, ...]:
    """Return the places of images in a store; "" for the store itself."""
    import zarr

    if isinstance(node, zarr.Array):
        return _ITSELF
    about = _about(node)
    _check_version(about, path)
    if "plate" in about:
        wells = [str(well["path"]) for well in about["plate"].get("wells", ())]
        fields = []
        for well in wells:
            for field in _fields(node[well]):
                fields.append(f"{well}/{field}")
        return tuple(fields) or _ITSELF
    if "well" in about:
        return _fields(node)
    if "bioformats2raw.layout" in about:
        return tuple(sorted((name for name in node.group_keys() if name.isdecimal()), key=int))
    if "spatialdata_attrs" in node.attrs and "images" in node:
        return tuple(f"images/{name}" for name in sorted(node["images"].group_keys())) or _ITSELF
    return _ITSELF


def _fields(well: Any) -> tuple[str, ...]:
    return tuple(str(image["path"]) for image in _about(well).get("well", {}).get("images", ()))


def _labels_beside(path: Path, image: Any) -> tuple[Path, ...]:
    """Return the label images of an image; SpatialData has them next to all of its images."""
    import zarr

    if path.parent.name == "images" and is_zarr(path.parents[1]):
        store = _open(path.parents[1])
        if "spatialdata_attrs" in store.attrs:
            path = path.parents[1]
            image = store
    if isinstance(image, zarr.Array):
        return ()
    labels = image.get("labels")
    folder = path / "labels"
    if isinstance(_about(image).get("labels"), list):  # the group of labels itself
        labels = image
        folder = path
    if not isinstance(labels, zarr.Group):
        return ()
    listed = _about(labels).get("labels") or sorted((*labels.group_keys(), *labels.array_keys()))
    return tuple(folder / str(name) for name in listed)


def _check_version(about: Mapping[str, Any], path: Path) -> None:
    parts = [about, about.get("plate"), about.get("well"), *(about.get("multiscales") or ())]
    for part in parts:
        try:
            version = Version(str(part["version"]))
        except (InvalidVersion, KeyError, TypeError):
            continue
        if version > Version(_NEWEST):
            raise InputError(
                f"{path} is OME-Zarr {version}; versions up to {_NEWEST} are read. Update this "
                f"program, or save the image in version {_NEWEST}."
            )


def _of_node(node: Any, path: Path) -> Stack:
    import zarr

    if isinstance(node, zarr.Array):
        return _plain(node, path)
    about = _about(node)
    _check_version(about, path)
    if about.get("multiscales"):
        return _multiscale(node, about, path)
    arrays = sorted(node.array_keys())
    if len(arrays) == 1:
        return _plain(node[arrays[0]], path)
    members = [*arrays, *sorted(node.group_keys())]
    raise InputError(
        f"{path} is a zarr group without an image of its own; choose one of its members "
        f"({', '.join(members) or 'none'}), for example {path / (members or ['0'])[0]}."
    )


def _missing(array: Any, path: Path) -> tuple[str, ...]:
    """Return a note on chunks that are not stored; zarr reads them as its fill value."""
    missing = array.nchunks <= _MOST_COUNTED and array.nchunks - array.nchunks_initialized
    if missing <= 0:  # a shard at the border counts chunks beyond it
        return ()
    return (
        f"{path}: {missing} of {array.nchunks} chunks are not stored and are read as "
        f"{array.fill_value}; they are empty, or lost.",
    )


def _plain(array: Any, path: Path) -> Stack:
    names = tuple(getattr(array.metadata, "dimension_names", None) or ())
    has_axes = None not in names and {"y", "x"} <= set(names)
    return stack_of(array, axes=names if has_axes else None, name=str(path))


def _multiscale(group: Any, about: Mapping[str, Any], path: Path) -> Stack:
    image = about["multiscales"][0]
    levels = tuple(group[item["path"]] for item in image["datasets"])
    listed = image.get("axes") or "tczyx"[-len(levels[0].shape) :]
    axes = tuple(str(axis["name"] if isinstance(axis, dict) else axis).lower() for axis in listed)
    channels = about.get("omero", {}).get("channels", [])
    stack = stack_of(list(levels), axes=axes, name=str(path))
    for before, after in pairwise(tuple(level.shape) for level in levels):
        if len(before) != len(after) or any(map(gt, after, before)):
            raise InputError(
                f"{path} lists a level of shape {after} after one of {before}; a pyramid goes from "
                "large to small. Correct its metadata."
            )
    return replace(
        stack,
        channels=tuple(str(item.get("label", i)) for i, item in enumerate(channels)),
        units=_units(image, listed, axes),
    )


def _units(image: Mapping[str, Any], listed: Sequence[Any], axes: tuple[str, ...]) -> Units | None:
    """Read the pixel size of the finest level; None if it is missing or makes no sense."""
    parts = (image["datasets"][0], image)
    steps = []
    for part in parts:
        steps.extend(part.get("coordinateTransformations", []))
    scales = []
    for step in steps:
        if step.get("type") == "scale":
            scales.append(step.get("scale") or ())
    plane = [axes.index("y"), axes.index("x")]
    units = []
    for i in plane:
        units.append(listed[i].get("unit", "") if isinstance(listed[i], dict) else "")
    try:
        scales = [scale for scale in scales if len(scale) == len(axes)]
        pixel = []
        for axis in plane:
            pixel.append(prod(float(scale[axis]) for scale in scales))
        return Units.of_layer(pixel, units)
    except (InputError, IndexError, TypeError, ValueError):
        return None
