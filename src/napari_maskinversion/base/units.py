"""Physical size of pixels, and their position in a coordinate reference system."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from .errors import InputError

# pint knows them too, but takes a second of every start, and its symbol of a micron is "µ".
_PREFIXES: Final = {"": "", "nano": "n", "micro": "µ", "milli": "m", "centi": "c", "kilo": "k"}
_SHORT: Final = {
    "um": "µm",
    "μm": "µm",  # Greek mu; the other one is the micro sign
    **dict.fromkeys(("micron", "microns"), "µm"),
    **{"angstrom": "Å", "inch": "in", "foot": "ft"},
}
for _prefix, _short in _PREFIXES.items():
    _SHORT[f"{_prefix}meter"] = f"{_short}m"
    _SHORT[f"{_prefix}metre"] = f"{_short}m"
# Used by viewers and files if nobody has set a unit.
_NONE: Final = {"", "pixel", "pixels", "px", "none", "dimensionless"}


def short_unit(name: str) -> str:
    """Return the symbol of a unit: ``"µm"`` for ``"micrometer"``; "" for pixels."""
    name = str(name).strip().replace("\\u00B5", "µ")
    if name.lower() in _NONE:
        return ""
    return _SHORT.get(name.lower(), name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Georeference:
    """Position of a plane's pixels in a coordinate reference system."""

    # ``(a, b, c, d, e, f)`` with ``x = a * column + b * row + c``, ``y = d * column + e * row +
    # f``; (0, 0) is the outer corner of the first pixel, its centre is (0.5, 0.5)
    transform: tuple[float, float, float, float, float, float]
    epsg: int | None = None  # EPSG code of the reference system

    def world(self, y: float, x: float) -> tuple[float, float]:
        """Return world ``(x, y)`` of plane coordinates; whole numbers are pixel centres."""
        a, b, c, d, e, f = self.transform
        column = x + 0.5
        row = y + 0.5
        return a * column + b * row + c, d * column + e * row + f

    def transposed(self) -> Georeference:
        """Return the georeference of the plane with rows and columns exchanged."""
        a, b, c, d, e, f = self.transform
        return replace(self, transform=(b, a, c, e, d, f))


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Physical size of a plane's pixels."""

    # Height and width of a pixel in `unit`; None if only the georeference is known
    pixel: tuple[float, float] | None = None
    unit: str = ""  # For example ``"µm"``
    geo: Georeference | None = None

    def __post_init__(self) -> None:
        if self.pixel is None:
            return
        for size in self.pixel:
            if not math.isfinite(size) or size <= 0:
                raise InputError(f"A pixel's size must be a number above 0; got {size:g}.")
        if not self.unit:
            raise InputError(
                f"A pixel size of {self.pixel[0]:g} needs a unit, for example µm (--unit)."
            )

    def transposed(self) -> Units:
        """Return the units of the plane with rows and columns exchanged."""
        return replace(
            self,
            pixel=self.pixel and (self.pixel[1], self.pixel[0]),
            geo=self.geo and self.geo.transposed(),
        )

    @classmethod
    def of_layer(cls, scale: Sequence[float], units: Sequence[object]) -> Units | None:
        """Return the units of a layer from scale and unit of its rows and columns.

        None if they are pixels, or if rows and columns have different units.
        """
        names = {short_unit(str(unit)) for unit in units}
        if len(names) != 1 or names == {""}:
            return None
        sizes = [abs(float(size)) for size in scale]
        return cls(pixel=(sizes[0], sizes[1]), unit=names.pop())
