"""Settings of the search for everything in an image. Imports no torch."""

from __future__ import annotations

from pydantic import Field

from ...base.validation import FrozenModel


class AutomaticConfig(FrozenModel):
    """How everything in an image is searched for.

    Parameters
    ----------
    points_per_side : int
        Points of the grid along each side.
    score : float
        Masks with a lower score are dropped.
    stability : float
        Masks whose IoU with themselves at another threshold is lower are dropped.
    overlap : float
        Masks whose box overlaps that of a better mask more than this (IoU) are dropped.
    min_area : int
        Masks with fewer pixels of the plane are dropped.
    batch : int
        Points in the model at once.

    Raises
    ------
    ConfigError
        If a value is out of range.
    """

    points_per_side: int = Field(default=32, ge=1)
    score: float = Field(default=0.88, ge=0, le=1)
    stability: float = Field(default=0.95, ge=0, le=1)
    overlap: float = Field(default=0.7, ge=0, le=1)
    min_area: int = Field(default=0, ge=0)
    batch: int = Field(default=16, ge=1)
