"""Planes that a file of regions names, on the axes of an image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from ...base.errors import InputError
from .annotation import Annotations

SLICE: Final = "slice"
"""The axis of ImageJ's slice numbers, which count along the only axis of a stack."""


def on_axes(
    annotations: Annotations, axes: Mapping[str, int], path: Path, image: str, channels: int = 1
) -> Annotations:
    """Return annotations with the names of an image's ``axes``, which go from names to sizes.

    Other names of as many axes mean the same ones in the same order. Slice numbers that count
    ``channels`` are no planes.
    """
    used = list(dict.fromkeys(axis for item in annotations.items for axis, _ in item.position))
    if all(name in axes for name in used):
        return annotations
    long = [name for name, size in axes.items() if size > 1] or list(axes)
    names, note = dict(zip(used, long, strict=False)), ""
    last = max(at for item in annotations.items for _, at in item.position)
    if used == [SLICE] and not long and last < channels:
        names, note = {}, f"{path}: slice numbers count the channels of {image}."
    elif len(used) != len(long):
        raise InputError(
            f"{path} has planes along {', '.join(used)}; {image} has planes along "
            f"{', '.join(axes) or 'no axis'}. Use the image that the regions were drawn on, or "
            "save them without planes."
        )
    elif used != [SLICE]:
        pairs = ", ".join(f"{own} are {name}" for own, name in names.items())
        note = f"{path}: its planes along {pairs} of {image}."
    items = tuple(
        replace(
            item,
            position=tuple((names[axis], at) for axis, at in item.position if axis in names),
        )
        for item in annotations.items
    )
    notes = (note, *annotations.notes) if note else annotations.notes
    return replace(annotations, items=items, notes=notes)
