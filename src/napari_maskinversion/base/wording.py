"""Parts of texts for users that many messages have."""

from __future__ import annotations

from collections.abc import Iterable


def counted(count: int, noun: str) -> str:
    """Return how many there are: ``"1 region"``, ``"1,200 regions"``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def listed(names: Iterable[object], most: int = 5) -> str:
    """Return the first of some names: ``"a, b, c, d, e, ..."``."""
    texts = list(map(str, names))
    return ", ".join(texts[:most]) + ", ..." * (len(texts) > most)


def one_line(error: BaseException) -> str:
    """Return what an error says, without line breaks."""
    return " ".join(str(error).split())


def first_line(error: BaseException) -> str:
    """Return what an error of a library says, which may be a page, for a message of ours."""
    lines = str(error).strip().splitlines()
    return lines[0][:200].rstrip(".") if lines else type(error).__name__
