"""Label files: one table of formats, and reading and writing by the end of the file's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.reading import read_bytes
from .csv_format import parse_csv, to_csv
from .label_file import LabelFile
from .templates import TEMPLATES
from .text_format import parse_text, to_text
from .yaml_format import parse_yaml, to_yaml

_MOST: Final = 256 * 2**20  # bytes
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class LabelFormat:
    """A format of label files."""

    name: str  # As in file dialogs
    suffixes: tuple[str, ...]
    read: Callable[[str, str], LabelFile]  # Takes the text and the file's name
    write: Callable[[LabelFile], str]  # Returns the text
    lacks: tuple[str, ...] = ()  # Parts of a vocabulary that the format has no place for
    # Used to write; all formats are read as UTF-8 with or without a byte order mark
    encoding: str = "utf-8"


def _read_text(text: str, file: str) -> LabelFile:
    try:
        return LabelFile(labels=tuple(parse_text(text)))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _read_csv(text: str, file: str) -> LabelFile:
    labels = parse_csv(text, file)
    if labels is not None:
        return LabelFile(labels=tuple(labels))
    if ";" in text and "," not in text:
        raise InputError(
            f"{file} has semicolons between its cells and no column 'label'; write label above the "
            "words, or commas between them."
        )
    return _read_text(text, file)  # without columns of ours it is text with commas


_TEXT: Final = LabelFormat(
    "Text",
    (".txt",),
    _read_text,
    lambda content: to_text(content.labels) + "\n",
    lacks=("groups", "colours", "prompts", "threshold", "description", "source"),
)
_CSV: Final = LabelFormat(
    "CSV",
    (".csv",),
    _read_csv,
    lambda content: to_csv(content.labels),
    lacks=("prompts", "threshold", "description", "source"),
    encoding="utf-8-sig",  # without the mark Excel guesses another encoding
)
FORMATS: Final = (
    _TEXT,
    _CSV,
    LabelFormat("YAML", (".yaml", ".yml"), parse_yaml, to_yaml),
)
SUFFIXES: Final = {suffix: form for form in FORMATS for suffix in form.suffixes}
"""Formats by suffix; files with another suffix are read as text."""
_ALSO_READ: Final = {".tsv": _CSV}
_NOT_READ: Final = (".json", ".jsonl", ".xml")
FILE_SUFFIXES: Final = {*SUFFIXES, *_ALSO_READ, *_NOT_READ}
"""A text that ends in one of these is the name of a file, not a label."""


def read_label_file(path: str | Path) -> LabelFile:
    """Read a label file; see `Vocabulary.read`."""
    suffix = Path(path).suffix.lower()
    if suffix in _NOT_READ:
        raise InputError(
            f"{path} is no label file; save the words as text (one a line), CSV or YAML."
        )
    data = read_bytes(Path(path), "label file", most=_MOST)
    form = SUFFIXES.get(suffix) or _ALSO_READ.get(suffix, _TEXT)
    content = form.read(_decode(data, path), str(path))
    if not content.labels:
        raise InputError(f"{path}: There are no labels; give at least one, for example: dog, cat.")
    return content


def write_label_file(content: LabelFile, path: Path, *, overwrite: bool = False) -> None:
    """Write a label file whole or not at all; see `Vocabulary.save`."""
    form = format_of(path.suffix)
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists; choose another name, or say to overwrite it.")
    with atomic_path(path) as part:
        part.write_bytes(form.write(content).encode(form.encoding))


def unsupported_fields(content: LabelFile, suffix: str) -> list[str]:
    """List what a label file with this suffix cannot keep: "groups", "prompts", ..."""
    used = {
        "groups": any(label.group for label in content.labels),
        "colours": any(label.color for label in content.labels),
        "prompts": content.templates not in (None, TEMPLATES["photo"]),
        "threshold": content.threshold is not None,
        "description": bool(content.description),
        "source": bool(content.source),
    }
    return [field for field in format_of(suffix).lacks if used[field]]


def format_of(suffix: str) -> LabelFormat:
    """Return the format that a suffix stands for."""
    form = SUFFIXES.get(suffix.lower())
    if form is None:
        raise InputError(
            f"Labels are written as {', '.join(SUFFIXES)}; got a file name that ends in {suffix!r}."
        )
    return form


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
