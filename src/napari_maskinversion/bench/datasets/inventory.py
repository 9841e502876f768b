"""What is known about a data set, and what of it lies in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ...base.errors import InputError
from .registry import DatasetSpec


def describe(spec: DatasetSpec, data: Path | None) -> Iterator[str]:
    """Yield lines about a set: origin, size, licence, what is there and what is missing.

    A set of which all parts are there is opened, which finds archives that were unpacked in part.

    Parameters
    ----------
    spec : DatasetSpec
    data : Path, optional
        Folder of sets; None says nothing of what is there.
    """
    layout = spec.layout
    split = layout.check_split(None)
    spelled = layout.spelled.get(split, split)
    yield f"{spec.name}: {spec.summary}"
    archives = dict.fromkeys(part.archive.format(split=spelled) for part in layout.parts)
    yield f"  from: {', '.join(archives)}"
    yield f"  size: {layout.size}"
    yield f"  licence: {layout.licence}"
    if layout.splits:
        yield f"  splits: {', '.join(layout.splits)}; {split} unless --split says another"
    if data is None:
        return
    for name, paths in layout.present(data, split).items():
        if paths:
            yield f"  found: {name}, {', '.join(str(path) for path in paths)}"
    missing = layout.missing(data, split)
    for phrase in missing:
        yield f"  missing: {phrase}"
    if missing:
        return
    try:
        yield f"  usable: {len(spec.open(data).keys())} images{f' of {split}' if split else ''}"
    except InputError as error:
        yield f"  not usable: {error}"
