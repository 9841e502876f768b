"""How the user arranged the columns of the results table."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ColumnState(BaseModel):
    """Order, visibility and widths of the columns."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    order: tuple[str, ...] = ()  # Names of columns; empty ones are the default
    shown: tuple[str, ...] = ()
    # Pixels, of the columns that the user has resized
    widths: dict[str, int] = Field(default_factory=dict)
