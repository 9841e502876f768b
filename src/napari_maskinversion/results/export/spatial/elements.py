"""Regions of each plane with their pixel values, as label images and tables share them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ....base.atomic_files import atomic_folder
from ....base.errors import InputError
from ....base.identity import Position
from ....base.targets import is_our_store
from ....regions.annotations.annotation import Annotation, Annotations
from ....regions.annotations.label_maps import instance_values

NAME: Final = "regions"


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """The regions of one plane."""

    name: str  # ``regions``, with the plane where there are several: ``regions_t0_z3``
    position: Position
    items: tuple[tuple[int, Annotation], ...]  # Regions with their pixel values


def elements_of(annotations: Annotations) -> list[Element]:
    """Return the regions by plane, with the pixel values of `instance_values`."""
    values = instance_values(annotations.items)
    planes: dict[Position, list[tuple[int, Annotation]]] = {}
    for value, item in zip(values, annotations.items, strict=True):
        planes.setdefault(item.position, []).append((value, item))
    return [
        Element(
            name=NAME if len(planes) == 1 else _name(position),
            position=position,
            items=tuple(items),
        )
        for position, items in planes.items()
    ]


def _name(position: Position) -> str:
    return "_".join([NAME, *(f"{axis}{at}" for axis, at in position)])


@contextmanager
def store_at(path: Path) -> Iterator[Path]:
    """Yield a folder that becomes a zarr store when the block succeeds."""
    if path.exists() and not is_our_store(path):
        raise InputError(f"{path} was not written by this program and stays; choose another name.")
    with atomic_folder(path) as folder:
        yield folder
