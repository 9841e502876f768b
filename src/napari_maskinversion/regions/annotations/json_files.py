"""Read JSON as far as it means something, and write it atomically."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self, TypeVar

import numpy as np
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    StrictInt,
    StrictStr,
    ValidationError,
    WrapValidator,
)

from ...base import reading
from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.memory import free_memory
from ...base.validation import encodable

_BYTES: Final = 50  # of memory for each value in a file
_ALWAYS_FITS: Final = 2**28  # bytes
T = TypeVar("T")


def _or_none(value: Any, validate: Any) -> Any:
    try:
        return validate(value)
    except ValidationError:
        return None


def as_number(value: Any) -> Any:
    """Return a whole number that is written as a text, or with a decimal point."""
    # Not "007" or "1_2", which are other ids than 7 and 12.
    if isinstance(value, str) and re.fullmatch(r"0|-?[1-9][0-9]{0,17}", value):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _as_text(value: Any) -> Any:
    if type(value) in (int, float):
        return str(value)
    return value


Loose = Annotated[T | None, WrapValidator(_or_none)]
"""A value of a record; None for one of another kind, so that the rest of the record is read."""
Id = Annotated[StrictInt | StrictStr, BeforeValidator(as_number)]
"""The id of a record: 2, also where a program writes "2"; "02" is a text."""
Name = Annotated[StrictStr, BeforeValidator(_as_text)]
"""A name, as it was written: programs write numbers, too."""


class Record(BaseModel):
    """An object in a file of another program: a subclass names the members that are read."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return an object's members; of anything else a record without any."""
        return cls.model_validate(value if isinstance(value, dict) else {})


def read_json(path: Path) -> Any:
    """Read a JSON file; one with an object on each line, as GDAL and Labelbox write it, is a list.

    GeoJSON text sequences (RFC 8142) begin each line with a record separator.
    """
    content = reading.read_bytes(path, "file of regions", most=reading.MOST_JSON)
    size = len(content) + _BYTES * sum(content.count(sign) for sign in (b"{", b"[", b",", b":"))
    free = free_memory()
    if size > _ALWAYS_FITS and size > free:
        raise InputError(
            f"{path} needs about {size / 1e9:,.1f} GB of memory to be read as file of regions, and "
            f"{free / 1e9:.1f} GB are free; cut it into files of fewer regions."
        )
    head = content[: content.find(b"\n")].strip(b"\x1e\r ")
    if head.startswith(b"{") and head.endswith(b"}"):
        lines = enumerate(content.replace(b"\x1e", b"").splitlines(), 1)
        pages = []
        for number, line in lines:
            if line.strip():
                pages.append(reading.parse_json(line, f"{path}, line {number}"))
        if len(pages) > 1:
            return pages
        return pages[0]
    return reading.parse_json(content, path)


def as_score(value: Any) -> float | None:
    """Return a number as a float; None for anything else, infinity and NaN."""
    if type(value) not in (int, float):
        return None
    try:
        score = float(value)
    except OverflowError:
        return None
    if math.isfinite(score):
        return score
    return None


def write_json(
    record: Mapping[str, Any],
    path: Path,
    *,
    indent: int | None = 2,
) -> None:
    """Write a JSON file in UTF-8; NaN and infinity become null."""
    with atomic_path(path) as part, part.open("w", encoding="utf-8", newline="\n") as file:
        json.dump(to_json_types(record), file, indent=indent, ensure_ascii=False, allow_nan=False)
        file.write("\n")


def to_json_types(value: Any) -> Any:
    """Convert to JSON types: NumPy numbers to Python numbers, NaN and infinity to None.

    Texts become `encodable`.
    """
    if isinstance(value, Mapping):
        return {encodable(str(key)): to_json_types(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_types(item) for item in value]
    if isinstance(value, np.ndarray):
        return to_json_types(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        if np.isfinite(value):
            return value
        return None
    if value is None or isinstance(value, int | bool):
        return value
    return encodable(str(value))
