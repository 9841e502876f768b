"""What is known about a data set, and what of it lies in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...base.errors import InputError
from .registry import DatasetSpec


def describe(spec: DatasetSpec, data: Path | None, split: str | None = None) -> Iterator[str]:
    """Yield lines about a set: origin, size, licence, what is there and what is missing.

    A set of which all parts are there is opened, which finds archives that were unpacked in part.
    """
    layout = spec.layout
    split = layout.check_split(split)
    spelled = layout.spelling(split)
    yield f"{spec.name}: {spec.summary}"
    yield f"  size: {layout.size}"
    yield f"  licence: {layout.licence}"
    if layout.splits:
        usual = layout.splits[0]
        yield f"  splits: {', '.join(layout.splits)}; {usual} unless --split says another"
    complete = data is not None
    for part in layout.parts:
        paths = () if data is None else part.paths(data, spelled)
        complete &= bool(paths)
        state = "found" if paths else "needed" if data is None else "missing"
        where = ", ".join(str(path) for path in paths) or part.place(spelled)
        yield f"  {state}: {part.name}, {where}, from {part.origin(spelled)}"
    if not complete:
        return
    try:
        count = len(spec.open(data, split).keys())
        images = f"{count} image{'s' * (count != 1)}"
        yield f"  usable: {images}{f' of {split}' if split else ''}"
    except InputError as error:
        yield f"  not usable: {error}"
