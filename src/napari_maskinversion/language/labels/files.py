"""Files of labels: which form a file has, and how it is decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...base.errors import InputError
from .csv_format import parse_csv
from .text_format import parse_text
from .yaml_format import Words, parse_yaml

SUFFIXES: Final = {".txt": "text", ".csv": "CSV", ".yaml": "YAML", ".yml": "YAML"}
"""Form of a file by its name's end; files with another end are read as text."""

_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


def read_words(path: str | Path) -> Words:
    """Read a file of labels; see `Vocabulary.read`.

    Raises
    ------
    InputError
        If the file cannot be read, or says something else; names it, and the line where it can.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"Labels could not be read from {path}: {error.strerror}.") from None
    text = _decode(data, path)
    form = SUFFIXES.get(Path(path).suffix.lower(), "text")
    if form == "YAML":
        return parse_yaml(text, str(path))
    labels = parse_csv(text, str(path)) if form == "CSV" else None
    if labels is None:
        try:
            labels = parse_text(text)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    if not labels:
        raise InputError(f"{path}: There are no labels; give at least one, for example: dog, cat.")
    return Words(labels=tuple(labels))


def form_of(suffix: str) -> str:
    """Give "text", "CSV" or "YAML".

    Raises
    ------
    InputError
        If labels are not written with this end of a file name.
    """
    if suffix.lower() not in SUFFIXES:
        raise InputError(
            f"Labels are written as {', '.join(SUFFIXES)}; got a file name that ends in {suffix!r}."
        )
    return SUFFIXES[suffix.lower()]


def _decode(data: bytes, path: str | Path) -> str:
    if data.startswith(_UTF16) or b"\x00" in data[:1000]:
        raise InputError(
            f"{path} is not UTF-8 but UTF-16 text or no text at all; save it as UTF-8 "
            "(in Excel: CSV UTF-8)."
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path} is not UTF-8 text (line {line}); save it as UTF-8 (in Excel: CSV UTF-8)."
        ) from None
