"""Keep spreadsheet programs from running text as a formula."""

from __future__ import annotations

from typing import Any, Final

# See "CSV injection" of OWASP.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")


def without_formula(value: Any) -> Any:
    """Return a text that starts like a formula with an apostrophe before it; others as they are."""
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return value
