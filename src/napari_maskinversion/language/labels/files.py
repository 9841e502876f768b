"""Label files: text, CSV and YAML, read and written by the end of the file's name."""

from __future__ import annotations

import csv
import io
import re
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.reading import parse_yaml, read_bytes, read_rows, read_text
from .label import (
    NONE_OF_THESE,
    TEMPLATES,
    Label,
    choose_templates,
    clashes,
    join_words,
    one_line,
    parse_text,
    split_words,
    to_text,
)
from .learned import SUFFIX, Learned, learned_of, read_head

_WHAT: Final = "label file"
_NO_LABELS: Final = "There are no labels; give at least one, for example: dog, cat."
_COLUMNS: Final = ("label", "synonyms", "group", "colour")
_ALIASES: Final = {
    "labels": "label",
    "name": "label",
    "synonym": "synonyms",
    "groups": "group",
    "color": "colour",
}
_FIELDS: Final = ("labels", "templates", "threshold", "description", "source")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFile:
    """Labels of a file, and the settings that a YAML file may add."""

    labels: tuple[Label, ...]
    templates: tuple[str, ...] | None = None  # Prompt templates; None if the file has none
    # Similarity below which a region is "none of these"; None if the file has none
    threshold: float | None = None
    description: str = ""  # What the list is and where it comes from; may be empty
    source: str = ""
    learned: Learned | None = None  # The classifier that ranks them


def _collect(file: object, entries: Iterable[tuple[str, Any]]) -> tuple[Label, ...]:
    """Make labels of entries; messages name the file and the place of an entry."""
    labels = list[Label]()
    places = list[str]()
    for place, entry in entries:
        try:
            labels.append(_label(entry))
        except InputError as error:
            raise InputError(f"{file}, {place}: {error}") from None
        places.append(place)
    for later, earlier, problem in clashes(labels):
        raise InputError(f"{file}, {places[later]}: {problem} (see {places[earlier]}).")
    return tuple(labels)


def _label(entry: Any) -> Label:
    """Make a label of ``car | automobile``, or of fields."""
    if not isinstance(entry, dict):
        name, *synonyms = split_words(_text(entry, "label")) or [""]
        return Label(name, tuple(synonyms))
    fields: dict[Any, Any] = {}
    for key, value in entry.items():
        fields[_ALIASES.get(key, key)] = value
    for field in fields:
        if field not in _COLUMNS or len(fields) < len(entry):
            raise InputError(
                f"{field!r} is not known or written twice; a label has {', '.join(_COLUMNS)}."
            )
    synonyms = fields.pop("synonyms", None)
    if not isinstance(synonyms, list):
        synonyms = split_words(_text(synonyms, "synonyms"))
    name, group, color = (_text(fields.get(key), key) for key in ("label", "group", "colour"))
    return Label(name, tuple(_text(word, "synonyms") for word in synonyms), group, color)


def _text(value: Any, name: str) -> str:
    if value is not None and not isinstance(value, str):
        raise InputError(f"the {name} must be a text; put quotes around one with : or # or [.")
    return one_line(value or "")


# -- text and CSV -----------------------------------------------------------------------------


def _read_text(path: Path) -> LabelFile:
    text = read_text(path, _WHAT)
    try:
        return LabelFile(labels=tuple(parse_text(text)))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _read_csv(path: Path) -> LabelFile:
    r"""Read a table with columns of ours; without any it is text with commas.

    Synonyms are separated by ``|`` (``\|`` is a pipe); other columns are ignored.
    """
    text = read_text(path, _WHAT)
    head = next((line for line in re.sub(r"\Asep=.", "", text).splitlines() if line.strip()), "")
    names = {cell.strip().strip('"').lower() for cell in re.split("[,;\t]", head)}
    columns = {_ALIASES.get(name, name) for name in names} & {*_COLUMNS}
    if "label" not in columns and len(columns) < 2:
        if ";" in text and "," not in text:
            raise InputError(
                f"{path} has semicolons between its cells and no column 'label'; write label above "
                "the words, or commas between them."
            )
        return _read_text(path)
    if "label" not in columns:
        raise InputError(f"{path} has no column 'label'; write it above the words.")
    rows = read_rows(path, _WHAT, known_columns={*_COLUMNS, *_ALIASES})
    return LabelFile(labels=_collect(path, ((f"line {line}", _fields(row)) for line, row in rows)))


def _fields(row: dict[str, str]) -> dict[str, Any]:
    cells = {_ALIASES.get(name, name): cell for name, cell in row.items()}
    name, *words = split_words(cells.get("label", "")) or [""]
    synonyms = dict.fromkeys((*words, *split_words(cells.get("synonyms", ""))))
    synonyms.pop(name, None)
    return {name: cells.get(name) for name in _COLUMNS} | {
        "label": name,
        "synonyms": list(synonyms),
    }


def _write_csv(content: LabelFile) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for label in content.labels:
        synonyms = join_words(label.synonyms)
        writer.writerow((join_words((label.name,)), synonyms, label.group, label.color))
    return out.getvalue()


# -- YAML, which keeps everything -------------------------------------------------------------


def read_yaml(content: bytes, file: object) -> LabelFile:
    """Read labels from YAML, in which every value is a text; messages name the ``file``.

    The file is a list of labels, a mapping from labels to synonyms, or a mapping with ``labels``
    (one of these two), ``templates``, ``threshold``, ``description`` and ``source``. A list item
    is a text (``car | automobile``) or a mapping with label, synonyms, group and colour.
    """
    data = parse_yaml(content, file, texts=True)
    if not (isinstance(data, dict) and "labels" in data):
        data = {"labels": [] if data is None else data}
    entries = data["labels"]
    threshold = data.get("threshold")
    if isinstance(entries, dict):
        listed_entries = []
        for name, more in entries.items():
            if isinstance(more, dict):
                fields = more
            else:
                fields = {"synonyms": more}
            listed_entries.append({**fields, "label": name})
        entries = listed_entries
    if not isinstance(entries, list):
        raise InputError(f"{file}: here should be a list of labels, each after a dash: - dog")
    labels = _collect(file, ((f"label {n}", entry) for n, entry in enumerate(entries, 1)))
    try:
        if unknown := [key for key in data if key not in _FIELDS]:
            raise InputError(f"{unknown[0]!r} is not known; use {', '.join(_FIELDS)}.")
        return LabelFile(
            labels=labels,
            templates=_templates(data.get("templates")),
            threshold=None if threshold is None else float(threshold),
            description=_text(data.get("description"), "description"),
            source=_text(data.get("source"), "source"),
        )
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    except (TypeError, ValueError):
        raise InputError(
            f"{file}: the threshold {reprlib.repr(threshold)} is not a number."
        ) from None


def _templates(value: Any) -> tuple[str, ...] | None:
    sentences = [value] if isinstance(value, str) else value
    if sentences is None:
        return None
    if not isinstance(sentences, list) or {*map(type, sentences)} - {str}:
        raise InputError("templates must be a list of sentences, or the name of a set.")
    return choose_templates(sentences)


def _write_yaml(content: LabelFile) -> str:
    import yaml

    record: dict[str, Any] = {
        "description": content.description,
        "source": content.source,
        "templates": None if content.templates is None else list(content.templates),
        "threshold": content.threshold,
        "labels": [item_of(label) for label in content.labels],
    }
    record = {name: value for name, value in record.items() if value not in ("", None)}
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    written: str = yaml.dump(record, Dumper=dumper, allow_unicode=True, sort_keys=False, width=1000)
    return written


def item_of(label: Label) -> Any:
    """Return a label as an item of a list in a file."""
    if label == Label(label.name) and "|" not in label.name:
        return label.name
    values = (label.name, list(label.synonyms), label.group, label.color)
    return {name: value for name, value in zip(_COLUMNS, values, strict=True) if value}


# -- classifiers ------------------------------------------------------------------------------


def _read_classifier(path: Path) -> LabelFile:
    record = read_head(path)
    labels = _collect(path, ((f"word {n}", word) for n, word in enumerate(record["words"], 1)))
    if record.get("none"):
        labels = (*labels, Label(NONE_OF_THESE))
    templates = _templates(record.get("templates"))
    learned = learned_of(path, record)
    return LabelFile(labels=labels, templates=templates, learned=learned)


# -- the table of formats ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LabelFormat:
    """A format of label files."""

    name: str  # As in file dialogs
    suffixes: tuple[str, ...]
    read: Callable[[Path], LabelFile]
    write: Callable[[LabelFile], str]  # Returns the text
    lacks: tuple[str, ...] = ()  # Parts of a vocabulary that the format has no place for
    # Used to write; all formats are read as UTF-8 with or without a byte order mark
    encoding: str = "utf-8"


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
    _write_csv,
    lacks=("prompts", "threshold", "description", "source"),
    encoding="utf-8-sig",  # without the mark Excel guesses another encoding
)
_YAML: Final = LabelFormat(
    "YAML",
    (".yaml", ".yml"),
    lambda path: read_yaml(read_bytes(path, _WHAT), path),
    _write_yaml,
)
FORMATS: Final = (_TEXT, _CSV, _YAML)
SUFFIXES: Final[dict[str, LabelFormat]] = {}
for _form in FORMATS:
    SUFFIXES.update(dict.fromkeys(_form.suffixes, _form))
"""Formats by suffix; files with another suffix are read as text."""
_NOT_READ: Final = (".json", ".jsonl", ".xml")
FILE_SUFFIXES: Final = {*SUFFIXES, SUFFIX, ".tsv", *_NOT_READ}
"""A text that ends in one of these is the name of a file, not a label."""


def read_label_file(path: str | Path) -> LabelFile:
    """Read a label file; see `Vocabulary.read`."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in _NOT_READ:
        raise InputError(
            f"{path} is no label file; save the words as text (one a line), CSV or YAML."
        )
    if suffix == ".tsv":
        form = _CSV
    else:
        form = SUFFIXES.get(suffix, _TEXT)
    if suffix == SUFFIX:
        content = _read_classifier(path)
    else:
        content = form.read(path)
    if not content.labels:
        raise InputError(f"{path}: {_NO_LABELS}")
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
    groups = {label.group for label in content.labels}
    colors = {label.color for label in content.labels}
    used = {
        "groups": any(groups),
        "colours": any(colors),
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
