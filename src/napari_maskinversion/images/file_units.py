"""Pixel size and georeference that the file of an image has, and its layer has not."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import MaskInversionError

if TYPE_CHECKING:
    from ..base.units import Georeference, Units


def georeference_of(file: Path | None, shape: tuple[int, int]) -> Georeference | None:
    """Return the georeference of a file whose planes have this shape; None without one."""
    units = None if file is None else _units_of(file, shape)
    return None if units is None else units.geo


def with_georeference(
    units: Units | None, file: Path | None, shape: tuple[int, int], axes: tuple[int, int]
) -> Units | None:
    """Return a layer's units with the georeference of its file; for a worker."""
    transposed = axes[0] > axes[1]
    of_file = None if file is None else _units_of(file, shape[::-1] if transposed else shape)
    if of_file is None or of_file.geo is None:
        return units
    if transposed:
        of_file = of_file.transposed()
    return of_file if units is None else replace(units, geo=of_file.geo)


def _units_of(file: Path, shape: tuple[int, int]) -> Units | None:
    try:
        about = file.stat()
        return _read(file, shape, about.st_mtime_ns, about.st_size)
    except (MaskInversionError, OSError):
        return None  # opened by another reader


@lru_cache(maxsize=8)
def _read(file: Path, shape: tuple[int, int], *_: int) -> Units | None:
    from .opening import open_image
    from .tiff import is_tiff

    if not is_tiff(file):
        return None
    with open_image(file) as stack:
        return stack.units if stack.shape == shape else None
