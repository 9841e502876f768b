"""How the user arranged the columns of the results table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnState:
    """How the user has arranged the table of results.

    Attributes
    ----------
    order, hidden : tuple of str
        Names of columns.
    widths : dict
        Pixels, of the columns that the user has made wider or narrower.
    """

    order: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    widths: Mapping[str, int] = field(default_factory=dict)
