"""``regions.csv``: the results table."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...base.atomic_files import atomic_path
from .bundle import Bundle, ExportFormat

if TYPE_CHECKING:
    import pandas as pd

# See "CSV injection" of OWASP. Where the comma is the decimal mark, programs split at semicolons,
# whatever is quoted: what follows one may become a cell of its own.
_SIGNS: Final = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_STARTS: Final = re.compile(rf"(\A[\t\r\n]+|\A(?=[{_SIGNS}]))|[;\t\r\n][\"\s]*(?=[{_SIGNS}])")


def write_csv(bundle: Bundle, path: Path) -> None:
    """Write the table as CSV in UTF-8 with every digit.

    Texts that a spreadsheet would run as a formula get an apostrophe, unless ``raw_csv`` is set.
    """
    write_table(bundle.table(), path, raw=bundle.raw_csv)


def write_table(table: pd.DataFrame, path: Path, *, raw: bool = False) -> None:
    """Write any table as `write_csv` does."""
    with atomic_path(path) as part:
        if not raw:
            table = _with_texts(table, without_formula).rename(columns=without_formula)
        # Python before 3.13 does not quote a carriage return, which would end the row.
        table = _with_texts(table, _with_plain_line_ends)
        table.to_csv(part, index=False, lineterminator="\n")


def without_formula(value: Any) -> Any:
    """Return a text with an apostrophe before all that may start a formula; others as they are."""
    return _STARTS.sub(_escaped, value) if isinstance(value, str) else value


def _escaped(start: re.Match[str]) -> str:
    return f"{start[0]}'" if start[1] is None else f"'{start[0]}"


def _with_texts(table: pd.DataFrame, change: Callable[[Any], Any]) -> pd.DataFrame:
    """Return a table with other texts; its numbers stay as they are, also whole with gaps."""
    names = table.select_dtypes(exclude="number").columns
    return table.assign(**{name: table[name].map(change) for name in names})


def _with_plain_line_ends(value: Any) -> Any:
    return "\n".join(value.splitlines()) if isinstance(value, str) and "\r" in value else value


FORMATS: Final = (ExportFormat("csv", "Table (.csv)", "regions.csv", write_csv),)
