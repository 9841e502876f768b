"""Which regions of a library are meant: filters, as a condition of SQL."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypedDict

from ..base.errors import ConfigError, InputError
from ..review.decisions import STATUSES


class Where(TypedDict, total=False):
    """Filters; a region has to fit all of them."""

    ids: Sequence[int]  # In the library
    label: str | Sequence[str]  # Any of these classes
    decision: str | Sequence[str]  # Any of these: accepted, rejected...
    image: str  # Name, path, or the end of a path; * and ? stand for anything
    smallest: float  # Covered pixels, inclusive
    largest: float
    since: str  # Date of the decision, else of the run (ISO 8601, UTC), inclusive
    before: str  # Exclusive
    space: int  # Number of the space, see `Library.info`


_TERMS: Final = {
    "ids": "regions.id IN (SELECT value FROM json_each(:ids))",
    "label": "label IN (SELECT value FROM json_each(:label))",
    "decision": "decision IN (SELECT value FROM json_each(:decision))",
    "image": "(name GLOB :image OR path GLOB :image OR path GLOB '*/' || :image)",
    "smallest": "area >= :smallest",
    "largest": "area <= :largest",
    "since": "date >= :since",
    "before": "date < :before",
    # + : by the index of labels, not by that of all rows of a space
    "space": "+space IN (SELECT value FROM json_each(:space))",
}
# Any of these, and their type.
_SEVERAL: Final = {"ids": int, "label": str, "decision": str, "space": int}


def condition(where: Where) -> tuple[str, dict[str, Any]]:
    """Return filters as a condition about regions and images, and its values by name."""
    values: dict[str, Any] = {}
    for name, value in where.items():
        if name not in _TERMS:
            raise ConfigError(f"There is no filter {name!r}; use {', '.join(_TERMS)}.")
        if name in ("since", "before"):
            value = utc(str(value))
        if name in _SEVERAL:
            if isinstance(value, str | int):
                several = [value]
            else:
                several = list(value)  # type: ignore[call-overload]
            if name == "decision" and (unknown := set(several) - set(STATUSES)):
                raise InputError(
                    f"There is no decision {unknown.pop()!r}; choose from {', '.join(STATUSES)}."
                )
            value = json.dumps(list(map(_SEVERAL[name], several)))
        if name == "image":
            value = str(value).replace("[", "[[]")  # files may have brackets in their names
        values[name] = value
    return " AND ".join(_TERMS[name] for name in values) or "1", values


def utc(text: str) -> str:
    """Return a date of any ISO form as the library has it, which can be compared as text."""
    try:
        date = datetime.fromisoformat(text)
        date = date.replace(tzinfo=date.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InputError(f"{text!r} is no date; write it as 2026-11-30.") from None
    return date.isoformat(timespec="milliseconds").replace("+00:00", "Z")
