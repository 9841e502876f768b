"""Open zarr folders: plain arrays, and OME-Zarr pyramids (versions 0.4 and 0.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ..base.errors import InputError
from ..base.units import Units
from .stack import Stack, check_series, stack_of

_MOST_COUNTED: Final = 20_000  # chunks; counting lists all of their files
_METADATA_FILES: Final = ("zarr.json", ".zarray", ".zgroup")


def is_zarr(path: Path) -> bool:
    """Return whether a path is a zarr array or group."""
    return path.is_dir() and any((path / name).is_file() for name in _METADATA_FILES)


def _missing(array: Any, path: Path) -> tuple[str, ...]:
    """Return a note on chunks that are not stored; zarr reads them as its fill value."""
    if array.nchunks > _MOST_COUNTED:
        return ()
    missing = array.nchunks - array.nchunks_initialized
    if missing <= 0:
        return ()
    return (
        f"{path}: {missing} of {array.nchunks} chunks are not stored and are read as "
        f"{array.fill_value}; they are empty, or lost.",
    )


def open_zarr(path: Path, number: int = 0) -> Stack:
    """Open a zarr folder; only its metadata is read.

    Raises
    ------
    InputError
        If it is a group that is neither an OME-Zarr image nor contains exactly one array.
    """
    import zarr

    node: Any = zarr.open(str(path), mode="r")
    names = [""]
    if not isinstance(node, zarr.Array) and "bioformats2raw.layout" in node.attrs.get(
        "ome", node.attrs
    ):
        names = sorted((name for name in node.group_keys() if name.isdecimal()), key=int)
        check_series(path, number, names)
        stack = _open_node(node[names[number]], path)
        return replace(stack, images=tuple(names), series=number)
    check_series(path, number, names)
    return _open_node(node, path)


def _open_node(node: Any, path: Path) -> Stack:
    stack = _of_node(node, path)
    return replace(stack, notes=_missing(stack.levels[0], path))


def _of_node(node: Any, path: Path) -> Stack:
    import zarr

    if isinstance(node, zarr.Array):
        return _plain(node, path)
    about: Mapping[str, Any] = node.attrs.get("ome", node.attrs)
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


def _plain(array: Any, path: Path) -> Stack:
    names = tuple(getattr(array.metadata, "dimension_names", None) or ())
    known = None not in names and {"y", "x"} <= set(names)
    return stack_of(array, axes=names if known else None, name=str(path))


def _multiscale(group: Any, about: Mapping[str, Any], path: Path) -> Stack:
    image = about["multiscales"][0]
    levels = tuple(group[item["path"]] for item in image["datasets"])
    listed = image.get("axes") or "tczyx"[-len(levels[0].shape) :]
    axes = tuple(str(axis["name"] if isinstance(axis, dict) else axis).lower() for axis in listed)
    channels = about.get("omero", {}).get("channels", [])
    stack = stack_of(list(levels), axes=axes, name=str(path))
    return replace(
        stack,
        channels=tuple(str(item.get("label", i)) for i, item in enumerate(channels)),
        units=_units(image, listed, axes),
    )


def _units(image: Mapping[str, Any], listed: Sequence[Any], axes: tuple[str, ...]) -> Units | None:
    """Read the pixel size of the finest level; None if it is missing or makes no sense."""
    scale = [1.0] * len(axes)
    steps = [
        *image["datasets"][0].get("coordinateTransformations", []),
        *image.get("coordinateTransformations", []),
    ]
    for step in steps:
        if step.get("type") == "scale" and len(step.get("scale", ())) == len(axes):
            scale = [a * float(b) for a, b in zip(scale, step["scale"], strict=True)]
    plane = [axes.index("y"), axes.index("x")]
    units = [listed[i].get("unit", "") if isinstance(listed[i], dict) else "" for i in plane]
    try:
        return Units.of_layer([scale[i] for i in plane], units)
    except InputError:
        return None
