"""Which images of a project are listed: "cat", "nothing found", "doubtful", "> 10 regions"."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Final

from ...batch.decided import Summary

NOTHING_FOUND, DOUBTFUL, UNDECIDED = "nothing found", "doubtful", "undecided"
EXAMPLE: Final = "> 10 regions"
_COUNT: Final = re.compile(r"(>=|<=|>|<|=|) *([0-9]+)(?: +regions?)?")
_SIGNS: Final = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "": operator.eq,
}


def images_filter(text: str) -> Callable[[Summary], bool] | None:
    """Return whether an image fits a text, of what is known of it; None if all do."""
    text = " ".join(text.split()).casefold()
    if text in ("", "all"):
        return None
    if text == NOTHING_FOUND:
        return lambda one: one.regions is not None and not one.words and not one.problem
    if text == DOUBTFUL:
        return lambda one: one.flagged > 0
    if text == UNDECIDED:
        return lambda one: (one.regions or 0) > one.decided
    if match := _COUNT.fullmatch(text):
        compare, number = _SIGNS[match[1]], int(match[2])
        return lambda one: one.regions is not None and bool(compare(one.regions, number))
    return lambda one: any(text in word.casefold() for word in one.words)
