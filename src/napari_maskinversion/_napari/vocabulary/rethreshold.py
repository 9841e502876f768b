"""Apply new limits to results without a new run. No Qt, no napari."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from ...language.ranking.uncertainty import UncertaintyConfig
    from ...results.results import Results


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits for "none of these" and for unsure suggestions.

    Attributes
    ----------
    threshold : float or None
        Least similarity of a label; None for no limit.
    uncertainty : UncertaintyConfig
    """

    threshold: float | None
    uncertainty: UncertaintyConfig

    def are_of(self, results: Results) -> bool:
        """Whether results have these limits."""
        vocabulary = results.info.vocabulary
        same = vocabulary is None or vocabulary.threshold == self.threshold
        return same and results.info.unsure == self.uncertainty


@dataclass(frozen=True, slots=True, eq=False)
class Rethresholded:
    """Results before and after, and the new table."""

    before: Results
    after: Results
    table: pd.DataFrame


def rethreshold(before: Results, limits: Limits) -> Rethresholded:
    """Apply other limits to results; recompute only the table."""
    after = before.with_threshold(limits.threshold).with_limits(limits.uncertainty)
    return Rethresholded(before, after, after.to_frame())
