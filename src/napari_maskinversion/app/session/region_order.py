"""What a search has found among regions that are stored: an order of the table and the gallery."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...base.identity import ImagePlace, RegionKey
from ...results.results import Results
from ..review.region_place import RegionPlace
from .records import ResultRecord


@dataclass(frozen=True, slots=True)
class SimilarRegion:
    """A region that was compared with what was looked for."""

    place: RegionPlace
    similarity: float  # Cosine, -1..1


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionOrder:
    """Regions by how much they are like what was looked for, the most similar first."""

    looked_for: str
    about: str  # A line about the search
    source: str  # Whose regions they are, a key of `region_sources.SOURCES`
    hits: tuple[SimilarRegion, ...]
    # Of the image shown: the results whose embeddings were compared. Those that the table shows
    # may have others, which know less of their surroundings
    compared: ResultRecord | None = None

    @property
    def title(self) -> str:
        """What the order is called."""
        return f"most like: {self.looked_for}"

    def similarities(self, places: Iterable[RegionPlace]) -> npt.NDArray[np.float64]:
        """Return the similarity of each region, (N,); NaN for those that were not compared.

        A region that was drawn again is another one of the same number.
        """
        similarities = []
        for place in places:
            hit = self._by_place.get((place.file, place.key))
            is_same = hit is not None and hit.place.box in (None, place.box)
            similarities.append(hit.similarity if hit is not None and is_same else np.nan)
        return np.array(similarities, np.float64)

    def of_results(self, results: Results, file: ImagePlace) -> npt.NDArray[np.float64]:
        """Return the similarity of each region of an image, (N,)."""
        regions = results.regions
        return self.similarities(RegionPlace("", one.key, file, one.bbox) for one in regions)

    @cached_property
    def _by_place(self) -> dict[tuple[ImagePlace, RegionKey], SimilarRegion]:
        return {(hit.place.file, hit.place.key): hit for hit in self.hits}
