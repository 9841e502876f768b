"""Sizes of a region in the unit of its image."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..base.units import Units
from .region_result import RegionResult


class PhysicalSize(NamedTuple):
    """Sizes of a region in the image's unit; the area in the unit squared."""

    area: float
    diameter: float
    height: float
    width: float
    unit: str


def physical_size(region: RegionResult, units: Units | None) -> PhysicalSize | None:
    """Return the sizes of a region; None without a pixel size."""
    if units is None or units.pixel is None:
        return None
    high, wide = units.pixel
    y0, x0, y1, x1 = region.bbox
    area = region.area * high * wide
    return PhysicalSize(
        area=area,
        diameter=equivalent_diameter(area),
        height=(y1 - y0) * high,
        width=(x1 - x0) * wide,
        unit=units.unit,
    )


def equivalent_diameter(area: float) -> float:
    """Return the diameter of the circle of the same area."""
    return 2 * math.sqrt(area / math.pi)
