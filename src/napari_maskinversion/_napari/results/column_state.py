"""How the user arranged the columns of the results table."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ColumnState(BaseModel):
    """Order, visibility and widths of the columns.

    Attributes
    ----------
    order, hidden : tuple of str
        Names of columns; an empty order is the default one.
    widths : dict
        Pixels, of the columns that the user has resized.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    order: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    widths: dict[str, int] = Field(default_factory=dict)
