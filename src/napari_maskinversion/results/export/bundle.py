"""Results and everything that is exported with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ...base.errors import InputError
from ...base.identity import Position
from ...base.validation import encodable
from ...regions.label_images import PlaneRegions
from ..compressed_region import CompressedRegion
from ..results import Results
from .provenance import provenance

if TYPE_CHECKING:
    import pandas as pd

_TOO_LARGE: Final = 2**63
Masks = Mapping[tuple[Position, int], CompressedRegion]
"""Masks of regions by plane and id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Results and everything that is exported with them."""

    results: Results
    # The regions of the run by plane and id, see `compress_masks`; empty if unknown
    masks: Masks = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)  # The inputs (file names, hashes)
    # ``name``, ``shape``, ``dtype`` and ``content`` (a hash of the pixels) of the image
    image: Mapping[str, Any] = field(default_factory=dict)
    # Extra columns of the table, one value a region, such as decisions
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    # Extra JSON entries, one mapping a region; empty for none
    records: Sequence[Mapping[str, Any]] = ()
    decisions: bytes = b""  # The decision log of a review, see `Review.saved`
    # Write texts to CSV files as they are, also those that a spreadsheet would run
    raw_csv: bool = False
    polygons: bool = False  # Write masks in COCO as polygons, not as run lengths

    def accepted(self) -> Bundle:
        """Return the accepted regions only."""
        states = self.columns.get("decision", ())
        rows = [row for row, state in enumerate(states) if state == "accepted"]
        if not rows:
            raise InputError("No region is accepted; review the results, or export all regions.")
        regions = tuple(self.results.regions[row] for row in rows)
        places = {(region.position, region.id) for region in regions}
        return replace(
            self,
            results=replace(self.results, regions=regions),
            masks={place: mask for place, mask in self.masks.items() if place in places},
            columns={name: [values[row] for row in rows] for name, values in self.columns.items()},
            records=[self.records[row] for row in rows] if self.records else (),
        )

    def table(self) -> pd.DataFrame:
        """Return the results table with the extra columns, each of one kind."""
        columns = {name: _of_one_kind(values) for name, values in self.columns.items()}
        return self.results.to_frame().assign(**columns)

    def provenance(self) -> dict[str, Any]:
        """Return how the results were computed, and from what."""
        return provenance(self.results.info, self.source)


def _of_one_kind(values: Sequence[Any]) -> Sequence[Any]:
    """Return values as texts if they are of several kinds, or too large; no table holds those."""
    there = [value for value in values if value is not None]
    kinds = {float if type(value) is int else type(value) for value in there}
    if len(kinds) < 2 and all(type(value) is not int or abs(value) < _TOO_LARGE for value in there):
        return [encodable(value) for value in values]
    return [None if value is None else encodable(str(value)) for value in values]


def compress_masks(
    planes: Iterable[PlaneRegions | Any],
) -> dict[tuple[Position, int], CompressedRegion]:
    """Return the compressed regions of planes, by plane and id."""
    return {
        (plane.position, region.id): CompressedRegion.of(region)
        for plane in planes
        for region in plane.regions
    }
