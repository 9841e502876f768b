"""What a review can be opened of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...base.identity import RegionIdentity, RegionKey
from ...results.results import Results


@dataclass(frozen=True, slots=True, eq=False)
class ReviewTarget:
    """Results, their layers, and their regions at the start of the run."""

    results: Results
    image: Any  # The image layer
    layer: Any  # The regions layer, with the column of decisions in its features
    regions: Mapping[RegionKey, RegionIdentity]
    saved: bytes = b""  # Decisions that came with reopened results
