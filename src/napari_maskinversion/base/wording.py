"""Parts of texts for users that many messages have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath


def counted(count: int, noun: str) -> str:
    """Return how many there are: ``"1 region"``, ``"1,200 regions"``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}s"


def listed(names: Iterable[object], most: int = 5) -> str:
    """Return the first of some names: ``"a, b, c, d, e, ..."``."""
    texts = list(map(str, names))
    if len(texts) > most:
        return ", ".join([*texts[:most], "..."])
    return ", ".join(texts)


def short_names(images: Iterable[str]) -> dict[str, str]:
    """Return the file names of paths, with their folder where a name is there twice."""
    paths = {image: PurePath(image) for image in images}
    count = Counter(path.name for path in paths.values())
    return {
        image: path.name if count[path.name] == 1 else "/".join(path.parts[-2:])
        for image, path in paths.items()
    }


def one_line(error: BaseException) -> str:
    """Return what an error says, without line breaks."""
    return " ".join(str(error).split())


def first_line(error: BaseException) -> str:
    """Return what an error of a library says, which may be a page, for a message of ours."""
    lines = str(error).strip().splitlines()
    if lines:
        return lines[0][:200].rstrip(".")
    return type(error).__name__
