"""Files of labels: which form a file has, and how it is decoded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..core.errors import InputError
from .label_csv import parse_csv, to_csv
from .label_text import parse_text, to_text
from .label_yaml import Words, parse_yaml, to_yaml

if TYPE_CHECKING:
    from .vocabulary import Vocabulary

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


def render(vocabulary: Vocabulary, suffix: str) -> bytes:
    """Write a vocabulary in the form of a file name's end.

    Returns
    -------
    bytes
        UTF-8; CSV begins with a byte order mark, without which Excel guesses another encoding.

    Raises
    ------
    InputError
        If the end is none of `SUFFIXES`.
    """
    form = form_of(suffix)
    if form == "YAML":
        words = Words(
            labels=vocabulary.entries,
            templates=vocabulary.templates,
            threshold=vocabulary.threshold,
        )
        return to_yaml(words).encode()
    if form == "CSV":
        return to_csv(vocabulary.entries).encode("utf-8-sig")
    return (to_text(vocabulary.entries) + "\n").encode()


def left_out(vocabulary: Vocabulary, suffix: str) -> list[str]:
    """Say what of a vocabulary a form has no place for."""
    from .vocabulary import Vocabulary

    form = form_of(suffix)
    lost = []
    if form == "text":
        lost += ["groups"] * any(vocabulary.groups) + ["colours"] * any(vocabulary.colors)
    if form != "YAML":
        usual = Vocabulary(("x",)).templates
        lost += ["prompts"] * (vocabulary.templates != usual)
        lost += ["threshold"] * (vocabulary.threshold is not None)
    return lost


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
