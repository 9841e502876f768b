"""Settings of the search for everything in an image. Imports no torch."""

from __future__ import annotations

from pydantic import Field

from ...base.validation import FrozenModel


class AutomaticConfig(FrozenModel):
    """How everything in an image is searched for."""

    # Points of the grid along each side
    points_per_side: int = Field(
        default=32,
        title="Points a side",
        description="Grid points along each side. More points find smaller objects; the time grows "
        "with their square.",
        ge=1,
        json_schema_extra={"ui_max": 256},
    )
    # Masks with a lower score are dropped
    score: float = Field(
        default=0.88,
        title="Score from",
        description="Drop masks with a lower predicted IoU.",
        ge=0,
        le=1,
    )
    # Masks whose IoU with themselves at another threshold is lower are dropped
    stability: float = Field(
        default=0.95,
        title="Stability from",
        description="Drop masks with a less certain outline: the IoU of the mask at a higher and a "
        "lower threshold.",
        ge=0,
        le=1,
    )
    # Masks whose box overlaps that of a better mask more than this (IoU) are dropped
    overlap: float = Field(
        default=0.7,
        title="Overlap to",
        description="Keep the better one of two masks whose boxes overlap more.",
        ge=0,
        le=1,
    )
    # Masks with fewer pixels of the plane are dropped
    min_area: int = Field(
        default=0,
        title="Area from",
        description="Drop masks with fewer pixels.",
        ge=0,
        json_schema_extra={"unit": "px", "ui_max": 1_000_000_000},
    )
    # Points in the model at once
    batch: int = Field(default=16, ge=1, json_schema_extra={"ui": False})
