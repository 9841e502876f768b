"""What all formats hold: regions of one image, each with a name and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import EmptyMaskError, InputError
from ...base.regions import Region, Regions
from ...base.units import Georeference

Position = tuple[tuple[str, int], ...]
Array = npt.NDArray[Any]

GREY: Final = "#808080"
_TOLD: Final = 3  # notes that a person is told one by one
_MOST_ID: Final = 2**31 - 1  # of a Labels layer


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One region and what is said of it.

    Parameters
    ----------
    region : Region
    label : str
        "" for none.
    score : float or None
    position : tuple of (str, int)
        Its plane, ``(("t", 3), ("z", 12))``; empty for a plain image.
    values : mapping
        Whatever else is known: the other columns of the table.
    """

    region: Region
    label: str = ""
    score: float | None = None
    position: Position = ()
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Regions of one image.

    Parameters
    ----------
    shape : tuple of int
        Pixels (H, W) of a plane.
    items : tuple of Annotation
    image : str
        The image's file name.
    geo : Georeference or None
    colors : mapping of str to str
        Colour (``#rrggbb``) of a label.
    about : mapping
        How they came to be, kept in the file.
    notes : tuple of str
        What a reader changed or left out, with the file's record.
    """

    shape: tuple[int, int]
    items: tuple[Annotation, ...]
    image: str = ""
    geo: Georeference | None = None
    colors: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Each label once, those with a colour first and in their order; "" is not one."""
        used = dict.fromkeys(item.label for item in self.items if item.label)
        colored = (name for name in self.colors if name in used)
        return (*colored, *(name for name in used if name not in self.colors))

    @property
    def planes(self) -> dict[Position, Regions]:
        """Regions by plane, in the order of their first."""
        found: dict[Position, list[Region]] = {}
        for item in self.items:
            found.setdefault(item.position, []).append(item.region)
        return {place: Regions(self.shape, regions) for place, regions in found.items()}

    @property
    def told(self) -> str:
        """The notes in a sentence or two; "" if there are none."""
        more = len(self.notes) - _TOLD
        rest = f" And {more} more like these." if more > 0 else ""
        return " ".join(self.notes[:_TOLD]) + rest


def color_of(annotations: Annotations, label: str) -> tuple[int, int, int]:
    """Colour of a label, 0..255; grey if it has none."""
    text = annotations.colors.get(label) or GREY
    red, green, blue = (int(text[place : place + 2], 16) for place in (1, 3, 5))
    return red, green, blue


def place(region_id: int, y: int, x: int, mask: Array, shape: tuple[int, int]) -> Region | None:
    """Put a mask whose corner lies at (y, x), maybe outside, on a plane; None if it misses it."""
    top, left = max(0, -y), max(0, -x)
    mask = mask[top : max(top, shape[0] - y), left : max(left, shape[1] - x)]
    return Region.from_mask(region_id, mask, (y + top, x + left))


def box_region(
    number: int,
    box: tuple[float, float, float, float],
    where: str,
    shape: tuple[int, int],
    notes: list[str],
) -> Region | None:
    """Pixels of a box ``(y0, x0, y1, x1)`` at pixel edges; notes if the image cuts it."""
    edges = [round(edge) for edge in box]
    sides = [*shape, *shape]
    y0, x0, y1, x1 = (min(max(edge, 0), side) for edge, side in zip(edges, sides, strict=True))
    if y0 >= y1 or x0 >= x1:
        return None
    if [y0, x0, y1, x1] != edges:
        notes.append(f"{where} reaches beyond the image and was cut.")
    return Region(number, (y0, x0, y1, x1), np.ones((y1 - y0, x1 - x0), bool))


def solid(region: Region) -> npt.NDArray[np.bool_]:
    """Mask of a region as yes and no: half covered pixels count."""
    if region.mask.dtype.kind == "b":
        return region.mask
    mask = region.mask >= 0.5
    return mask if mask.any() else np.asarray(region.mask == region.mask.max())


def same_image(one: str, other: str) -> bool:
    """Whether two names are of one file; folders do not count, nor a suffix that one lacks."""
    first, second = PurePosixPath(one.replace("\\", "/")), PurePosixPath(other.replace("\\", "/"))
    if first.suffix and second.suffix:
        return first.name == second.name
    return first.name == second.name or first.stem == second.stem


def outside(record: str, shape: tuple[int, int]) -> EmptyMaskError:
    """Make the error of a region that misses the image."""
    return EmptyMaskError(
        f"{record} covers no pixel of the image ({shape[0]} x {shape[1]} px); take it out of the "
        "file, or use the image that it was drawn on."
    )


def numbered(
    ids: Sequence[Any], planes: Sequence[Position], path: Path, notes: list[str]
) -> list[int]:
    """Give labels as ids: those of the file if no two on a plane are the same."""
    if all(type(value) is int and 0 < value <= _MOST_ID for value in ids):
        if len(set(zip(ids, planes, strict=True))) == len(ids):
            return list(ids)
        reason = "not all different"
    else:
        reason = f"not all whole numbers from 1 to {_MOST_ID}"
    if any(value is not None for value in ids):
        notes.append(f"{path}: regions are counted from 1, since their ids are {reason}.")
    return list(range(1, len(ids) + 1))


def single(value: Any, what: str, record: str) -> Any:
    """Return a value that is one number or text, or None.

    Raises
    ------
    InputError
        If it is a list or an object; names the record.
    """
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "an object"
        raise InputError(f"{record} is broken: its {what} is {kind}, not a number or a text.")
    return value


def check_any(items: Sequence[Any], path: Path, notes: Sequence[str] = ()) -> None:
    """Refuse a file without a region.

    Raises
    ------
    InputError
        Says with the first notes what was left out.
    """
    if not items:
        raise InputError(" ".join([f"{path} holds no region.", *notes[:_TOLD]]))
