"""Keep spreadsheet programs from running text as a formula."""

from __future__ import annotations

import re
from typing import Any, Final

# See "CSV injection" of OWASP. Where the comma is the decimal mark, programs split at semicolons,
# whatever is quoted: what follows one may become a cell of its own.
_SIGNS: Final = "=+\\-@\uff1d\uff0b\uff0d\uff20"
_STARTS: Final = re.compile(rf"(\A[\t\r\n]+|\A(?=[{_SIGNS}]))|[;\t\r\n][\"\s]*(?=[{_SIGNS}])")


def without_formula(value: Any) -> Any:
    """Return a text with an apostrophe before all that may start a formula; others as they are."""
    return _STARTS.sub(_escaped, value) if isinstance(value, str) else value


def _escaped(start: re.Match[str]) -> str:
    return f"{start[0]}'" if start[1] is None else f"'{start[0]}"
