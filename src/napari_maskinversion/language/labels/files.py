"""Label files: text, CSV and YAML, read and written by the end of the file's name.

YAML keeps everything, prompts and threshold included; the pydantic models below are that format.
"""

from __future__ import annotations

import csv
import io
import re
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...base.reading import read_bytes
from .label import Label, clashes, join_words, one_line, parse_text, split_words, to_text
from .templates import TEMPLATES, check_templates, choose_templates

_MOST: Final = 256 * 2**20  # bytes
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_NO_LABELS: Final = "There are no labels; give at least one, for example: dog, cat."


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFile:
    """Labels of a file, and the settings that a YAML file may add."""

    labels: tuple[Label, ...]
    templates: tuple[str, ...] | None = None  # Prompt templates; None if the file has none
    # Similarity below which a region is "none of these"; None if the file has none
    threshold: float | None = None
    description: str = ""  # What the list is and where it comes from; may be empty
    source: str = ""


# -- text and CSV -----------------------------------------------------------------------------

_COLUMNS: Final = ("label", "synonyms", "group", "colour")
_ALIASES: Final = {
    "labels": "label",
    "name": "label",
    "synonym": "synonyms",
    "groups": "group",
    "color": "colour",
}


def _read_text(text: str, file: str) -> LabelFile:
    try:
        return LabelFile(labels=tuple(parse_text(text)))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _read_csv(text: str, file: str) -> LabelFile:
    r"""Read a table with columns of ours; without any it is text with commas.

    The header decides the separator: a comma, a semicolon or a tab. Synonyms are separated by
    ``|`` (``\|`` is a pipe); other columns are ignored.
    """
    separators = ",;\t"
    if marked := re.match(r"sep=([,;\t])(?=[\r\n])", text):  # Excel's own line for the separator
        separators = marked[1]
        text = text[marked.end() :]
    head = next((line for line in re.split(r"[\r\n]", text) if line.strip()), "")
    separator = max(separators, key=lambda mark: len(_columns(head.split(mark))))
    known = _columns(head.split(separator))
    if "label" not in known and len(known) < 2:
        if ";" in text and "," not in text:
            raise InputError(
                f"{file} has semicolons between its cells and no column 'label'; write label above "
                "the words, or commas between them."
            )
        return _read_text(text, file)
    labels: list[Label] = []
    lines: list[int] = []
    columns: dict[str, int] | None = None
    line, width = 1, 0
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for cells in reader:
            if columns is None and any(map(str.strip, cells)):
                columns, width = _columns(cells), len(cells)
                if "label" not in columns:
                    raise InputError("there is no column 'label'.")
            elif columns is not None and any(map(str.strip, cells)):
                if any(map(str.strip, cells[width:])):
                    raise InputError(
                        "there are more cells than columns; put double quotes around a cell with "
                        f"{separator!r} in it."
                    )
                labels.append(_row(cells, columns))
                lines.append(line)
            line = reader.line_num + 1  # where the next row begins: a cell may span lines
    except csv.Error as error:
        raise InputError(
            f"{file}, line {line}: it cannot be read ({error}); look for a double quote that is "
            'never closed. A quote inside a cell is written "like ""this""".'
        ) from None
    except InputError as error:
        raise InputError(f"{file}, line {line}: {error}") from None
    for later, earlier, problem in clashes(labels):
        raise InputError(f"{file}, line {lines[later]}: {problem} (see line {lines[earlier]}).")
    return LabelFile(labels=tuple(labels))


def _columns(cells: Sequence[str]) -> dict[str, int]:
    """Return the places of our columns in a header."""
    names = [cell.strip().strip('"').lower() for cell in cells]
    places = {_ALIASES.get(name, name): place for place, name in enumerate(names)}
    return {name: place for name, place in places.items() if name in _COLUMNS}


def _row(cells: list[str], columns: dict[str, int]) -> Label:
    row = {name: cells[place] if place < len(cells) else "" for name, place in columns.items()}
    name, *words = split_words(row["label"]) or [""]
    synonyms = dict.fromkeys((*words, *split_words(row.get("synonyms", ""))))
    synonyms.pop(name, None)
    return Label(name, tuple(synonyms), one_line(row.get("group", "")), row.get("colour", ""))


def _write_csv(content: LabelFile) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for label in content.labels:
        synonyms = join_words(label.synonyms)
        writer.writerow((join_words((label.name,)), synonyms, label.group, label.color))
    return out.getvalue()


# -- YAML -------------------------------------------------------------------------------------


def _text(value: Any) -> Any:
    return "" if value is None else value


def _synonyms(value: Any) -> Any:
    return split_words(value or "") if value is None or isinstance(value, str) else value


def _templates(value: Any) -> Any:
    if value is not None and not isinstance(value, str | list):
        raise ValueError("templates must be a list of sentences, or the name of a set.")
    return choose_templates([value]) if isinstance(value, str) else value


def _checked(templates: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if templates is None else check_templates(templates)


def _entry(value: Any) -> Any:
    """Return the fields of a list item; ``car | automobile`` is a name with a synonym."""
    if value is not None and not isinstance(value, str):
        return value
    name, *synonyms = split_words(value or "") or [""]
    return {"label": name, "synonyms": synonyms}


def _entries(value: Any) -> Any:
    """Return a mapping from labels to synonyms or fields as a list."""
    if not isinstance(value, dict):
        return value
    return [
        {**(fields if isinstance(fields, dict) else {"synonyms": fields}), "label": name}
        for name, fields in value.items()
    ]


_Line = Annotated[str, BeforeValidator(_text), AfterValidator(one_line)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    label: _Line = Field("", validation_alias=AliasChoices("label", "name"))
    synonyms: Annotated[tuple[_Line, ...], BeforeValidator(_synonyms)] = ()
    group: _Line = ""
    colour: _Line = Field("", validation_alias=AliasChoices("colour", "color"))


def _label(entry: _Entry) -> Label:
    return Label(entry.label, entry.synonyms, entry.group, entry.colour)


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    labels: Annotated[
        tuple[Annotated[_Entry, BeforeValidator(_entry), AfterValidator(_label)], ...],
        BeforeValidator(_entries),
    ]
    templates: Annotated[
        tuple[str, ...] | None, BeforeValidator(_templates), AfterValidator(_checked)
    ] = None
    threshold: float | None = None
    description: _Line = ""
    source: _Line = ""


def parse_yaml(text: str, file: str) -> LabelFile:
    """Read labels from YAML; messages name the ``file``.

    The file is a list of labels, a mapping from labels to synonyms, or a mapping with ``labels``
    (one of these two), ``templates``, ``threshold``, ``description`` and ``source``. A list item
    is a text (``car | automobile``) or a mapping with label, synonyms, group and colour.
    """
    import yaml

    try:
        data = yaml.load(text, _text_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise InputError(
            f"{file}, line {line}: this is not YAML ({error.problem or error.context})."
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{file} is not YAML ({' '.join(str(error).split())}).") from None
    if data is None:
        raise InputError(f"{file}: {_NO_LABELS}")
    if not (isinstance(data, dict) and "labels" in data):
        data = {"labels": data}
    try:
        content = _File.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{file}: {_problem(error)}") from None
    labels: tuple[Any, ...] = content.labels
    for later, earlier, problem in clashes(labels):
        raise InputError(f"{file}, label {later + 1}: {problem} (see label {earlier + 1}).")
    return LabelFile(**dict(content))


@cache
def _text_loader() -> Any:
    """Return a loader whose scalars are texts: the label ``no`` is not false, ``1.0`` no number."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class TextLoader(base):  # type: ignore[misc]
        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's name
            start: [(tag, form) for tag, form in forms if tag.endswith(":null")]
            for start, forms in base.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            # The later value would silently replace the earlier one.
            before: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key.value, str):
                    continue
                if key.value in before:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value!r} appears twice", key.start_mark
                    )
                before.add(key.value)
            return super().construct_mapping(node, deep)

    return TextLoader


def _problem(error: ValidationError) -> str:
    """Return the first of pydantic's problems as a sentence with its place."""
    problem = error.errors(include_url=False)[0]
    kind, path = problem["type"], problem["loc"]
    where = f"label {int(path[1]) + 1}: " if path[:1] == ("labels",) and len(path) > 1 else ""
    name = str(path[-1])
    if kind == "extra_forbidden":
        if where:
            return f"{where}{name!r} is not known; a label has {', '.join(_COLUMNS)}."
        return f"{name!r} is not known; use {', '.join(_File.model_fields)}."
    if kind == "value_error":
        return f"{where}{problem['ctx']['error']}"
    if path == ("labels",):
        return "here should be a list of labels, each after a dash: - dog"
    if name == "threshold":
        return f"the threshold {reprlib.repr(problem['input'])} is not a number."
    named = next((part for part in reversed(path) if isinstance(part, str)), "label")
    what = "label" if named == "labels" else named
    return f"{where}the {what} must be a text; put quotes around one with : or # or [."


def _write_yaml(content: LabelFile) -> str:
    import yaml

    fields = {
        "description": content.description,
        "source": content.source,
        "templates": None if content.templates is None else list(content.templates),
        "threshold": content.threshold,
    }
    record: dict[str, Any] = {name: part for name, part in fields.items() if part not in ("", None)}
    record["labels"] = [_item(label) for label in content.labels]
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    written: str = yaml.dump(record, Dumper=dumper, allow_unicode=True, sort_keys=False, width=1000)
    return written


def _item(label: Label) -> Any:
    if label == Label(label.name) and "|" not in label.name:
        return label.name
    values = (label.name, list(label.synonyms), label.group, label.color)
    return {name: value for name, value in zip(_COLUMNS, values, strict=True) if value}


# -- the table of formats ---------------------------------------------------------------------


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
FORMATS: Final = (_TEXT, _CSV, LabelFormat("YAML", (".yaml", ".yml"), parse_yaml, _write_yaml))
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
    except UnicodeDecodeError:
        raise InputError(
            f"{path} is not UTF-8 text; save it as UTF-8 (in Excel: CSV UTF-8)."
        ) from None
