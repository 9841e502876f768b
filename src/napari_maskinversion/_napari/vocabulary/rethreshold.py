"""Results judged by other limits than those of their run. Knows neither Qt nor napari."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from ...language.ranking.uncertainty import UncertaintyConfig
    from ...results.results import Results


@dataclass(frozen=True, slots=True)
class Limits:
    """When a region is none of the labels, and when its answer is unsure.

    Attributes
    ----------
    threshold : float or None
        Least similarity of a label; None where any will do.
    uncertainty : UncertaintyConfig
    """

    threshold: float | None
    uncertainty: UncertaintyConfig

    def are_of(self, results: Results) -> bool:
        """Whether results were judged by these."""
        vocabulary = results.info.vocabulary
        same = vocabulary is None or vocabulary.threshold == self.threshold
        return same and results.info.unsure == self.uncertainty


@dataclass(frozen=True, slots=True, eq=False)
class Rethresholded:
    """Results before and after, and the new ones as a table."""

    before: Results
    after: Results
    table: pd.DataFrame


def rethreshold(before: Results, limits: Limits) -> Rethresholded:
    """Apply other limits to results; only the table is made again."""
    after = before.with_threshold(limits.threshold).with_limits(limits.uncertainty)
    return Rethresholded(before, after, after.to_frame())


def same_regions(one: Results | None, other: Results | None) -> bool:
    """Whether two results are of one run and differ in how they are read at most."""
    if one is None or other is None or len(one) != len(other):
        return False
    pairs = zip(one.regions, other.regions, strict=True)
    return all(a.embedding is b.embedding for a, b in pairs)
