"""Decided regions of a library as training samples."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ..base.identity import RegionKey, plane_of
from ..base.reading import parse_json
from ..learning.features import Measured
from ..learning.samples import RegionOfImage, TrainingSample
from .filters import Where, condition

if TYPE_CHECKING:
    from .store import Store

DECIDED: Final = ("accepted", "rejected")  # what teaches
_COLUMNS: Final = (
    *("space", "row", "path", "series", "name", "content", "plane", "region", "label", "area"),
    *("y0", "x0", "y1", "x1"),
)


class LibrarySample(NamedTuple):
    """A decided region of a library, and where it is."""

    sample: TrainingSample
    space: int
    image: str  # Path, or the name of an image whose path is not known
    series: int
    plane: str

    @property
    def place(self) -> RegionOfImage:
        """What it is known by everywhere."""
        return self.sample.image_hash, self.sample.key


def read_samples(store: Store, spaces: Collection[int], where: Where) -> list[LibrarySample]:
    """Return the decided regions of spaces that fit filters, in the order they were added."""
    term, values = condition({"decision": DECIDED, **where, "space": sorted(spaces)})  # type: ignore[typeddict-item]
    samples: list[LibrarySample] = []
    with store.reading() as database:
        query = (
            f"SELECT {', '.join(_COLUMNS)}, measures FROM regions JOIN images"
            f" ON images.id = regions.image WHERE {term}"
            " AND decision IN ('accepted', 'rejected') ORDER BY regions.id"
        )
        rows = [tuple(row) for row in database.execute(query, values)]
        vectors: dict[int, Any] = {}  # By the number of the row
        for space in store.spaces(database):
            places = [place for place, row in enumerate(rows) if row[0] == space.id]
            if places:
                halves = store.vectors(space)[[rows[place][1] for place in places]]
                lengths = halves.astype(np.float32)
                lengths /= np.linalg.norm(lengths, axis=1, keepdims=True)
                vectors |= zip(places, lengths, strict=True)
    for place, row in enumerate(rows):
        space_number, _, path, series, name, content, plane, region, label, area = row[:10]
        y0, x0, y1, x1, measured = row[10:]
        image = path or name
        sample = TrainingSample(
            embedding=vectors[place],
            label=label or None,
            image_hash=content or f"{image}\0{series}",  # a copy of an image is no other image
            key=RegionKey(region, plane_of(plane)),
            measures=Measured(area, (y0, x0, y1, x1), parse_json(measured or "{}", "measures")),
        )
        samples.append(LibrarySample(sample, space_number, image, series, plane))
    return samples


def places_without_lesson(store: Store) -> set[RegionOfImage]:
    """Return the regions that nobody has accepted or rejected."""
    query = (
        "SELECT content, region, plane FROM regions JOIN images ON images.id = regions.image"
        " WHERE decision NOT IN ('accepted', 'rejected')"
    )
    with store.reading() as database:
        rows = database.execute(query).fetchall()
    return {(content, RegionKey(region, plane_of(plane))) for content, region, plane in rows}


def decided_places(store: Store, spaces: Collection[int]) -> list[RegionOfImage]:
    """Return which regions of spaces were accepted or rejected."""
    term, values = condition({"decision": DECIDED, "space": sorted(spaces)})  # type: ignore[typeddict-item]
    query = (
        "SELECT content, region, plane FROM regions JOIN images ON images.id = regions.image"
        f" WHERE {term}"
    )
    with store.reading() as database:
        rows = database.execute(query, values).fetchall()
    return [(content, RegionKey(region, plane_of(plane))) for content, region, plane in rows]
