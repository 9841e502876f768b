"""Labels as a CSV table with the columns label, synonyms, group and colour."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from typing import Final

from ...base.errors import InputError
from .label import Label, clashes, join_words, one_line, split_words

COLUMNS: Final = ("label", "synonyms", "group", "colour")
_ALIASES: Final = {
    "labels": "label",
    "name": "label",
    "synonym": "synonyms",
    "groups": "group",
    "color": "colour",
}
_SEPARATORS: Final = (",", ";", "\t")
_BLANK_LINES: Final = re.compile(r"(?:[ \t]*(?:\r\n|\r|\n))*")


def parse_csv(text: str, file: str) -> list[Label] | None:
    r"""Read a table of labels; return None if the header has no known column.

    The header decides the separator: a comma, a semicolon or a tab. Synonyms are separated by
    ``|`` (``\|`` is a pipe); other columns are ignored. Messages name the `file`.

    Raises
    ------
    InputError
        If a row cannot be read; names file and line.
    """
    # Excel's own line for the separator.
    marked = re.match(r"sep=([,;\t])(?:\r\n|\r|\n)", text)
    separators = _SEPARATORS if marked is None else (marked.group(1),)
    start = _BLANK_LINES.match(text, 0 if marked is None else marked.end())
    assert start is not None  # it also matches the empty string
    skipped = len(re.findall(r"\r\n|\r|\n", text[: start.end()]))
    text = text[start.end() :]
    header = re.split(r"[\r\n]", text, maxsplit=1)[0]
    separator = max(separators, key=lambda mark: len(_columns(header, mark)))
    columns = _columns(header, separator)
    if "label" not in columns and len(columns) < 2:
        return None
    rows = _rows(text, separator, file, skipped)
    line, cells = next(rows)
    if "label" not in columns:
        raise InputError(f"{file}, line {line}: there is no column 'label'.")
    if len(columns) < sum(_meaning(cell) in COLUMNS for cell in cells):
        raise InputError(f"{file}, line {line}: two columns have the same meaning; remove one.")
    labels, lines = [], []
    for line, cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        if any(cell.strip() for cell in cells[len(_cells(header, separator)) :]):
            raise InputError(
                f"{file}, line {line}: there are more cells than columns; put double quotes "
                f"around a cell with {separator!r} in it."
            )
        try:
            labels.append(_label(cells, columns))
        except InputError as error:
            raise InputError(f"{file}, line {line}: {error}") from None
        lines.append(line)
    for later, earlier, problem in clashes(labels):
        raise InputError(f"{file}, line {lines[later]}: {problem} (see line {lines[earlier]}).")
    return labels


def to_csv(labels: Sequence[Label]) -> str:
    """Write a table that `parse_csv` and spreadsheets can read."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for label in labels:
        synonyms = join_words(label.synonyms)
        writer.writerow((join_words((label.name,)), synonyms, label.group, label.color))
    return out.getvalue()


def _label(cells: list[str], columns: dict[str, int]) -> Label:
    def cell(name: str) -> str:
        place = columns.get(name, len(cells))
        return cells[place] if place < len(cells) else ""

    words = split_words(cell("label"))
    if not words:
        raise InputError("the label is blank.")
    name, *more = words
    synonyms = dict.fromkeys((*more, *split_words(cell("synonyms"))))
    synonyms.pop(name, None)
    return Label(name, tuple(synonyms), one_line(cell("group")), cell("colour"))


def _meaning(cell: str) -> str:
    name = cell.strip().lower()
    return _ALIASES.get(name, name)


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:  # a cell too long for a header
        return []


def _columns(line: str, separator: str) -> dict[str, int]:
    places = {_meaning(cell): place for place, cell in enumerate(_cells(line, separator))}
    return {name: place for name, place in places.items() if name in COLUMNS}


def _rows(text: str, separator: str, file: str, skipped: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each row and the line it begins on; a cell may span several lines."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    line = skipped + 1
    try:
        for row in reader:
            yield line, row
            line = skipped + reader.line_num + 1
    except csv.Error as error:
        why = "a double quote opens a cell and is never closed"
        if str(error) != "unexpected end of data":
            why = f"it cannot be read ({error})"
        raise InputError(
            f'{file}, line {line}: {why}; a quote inside a cell is written "like ""this""".'
        ) from None
