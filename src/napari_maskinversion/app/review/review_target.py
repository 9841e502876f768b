"""What a review can be opened of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base.identity import RegionIdentity, RegionKey
from ...results.results import Results
from ..layer_input.layer_features import FeatureWriter

if TYPE_CHECKING:  # pydantic, which reads the types of the session's values, cannot check protocols
    from ..layer_input.viewer_protocols import ImageLayer, RegionsLayer


@dataclass(frozen=True, slots=True, eq=False)
class ReviewTarget:
    """Results, their layers, and their regions at the start of the run."""

    results: Results
    image: ImageLayer
    features: FeatureWriter  # Of the regions layer
    regions: Mapping[RegionKey, RegionIdentity]
    saved: bytes = b""  # Decisions that came with reopened results

    @property
    def layer(self) -> RegionsLayer:
        """The regions layer."""
        return self.features.layer
