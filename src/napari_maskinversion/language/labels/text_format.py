"""Labels as plain text: one per line or separated by commas, synonyms after a pipe."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator

from ...base.errors import InputError
from .label import Label, join_words, split_words


def parse_text(text: str) -> list[Label]:
    """Read labels from text; see `Vocabulary.parse`."""
    synonyms: dict[str, dict[str, None]] = {}
    for name, *others in word_lists(text):
        synonyms.setdefault(name, {}).update(dict.fromkeys(others))
    return [
        Label(name, tuple(word for word in others if word != name))
        for name, others in synonyms.items()
    ]


def word_lists(text: str) -> Iterator[list[str]]:
    """Yield the words of each entry, the name first; repeated labels come again."""
    for number, line in enumerate(map(str.strip, lines_of(text)), 1):
        if not line or line.startswith("#"):
            continue
        # A double quote counts only at the start of an entry, so 5" is a label. Lines are read
        # one by one, so an unclosed quote does not swallow the next ones.
        try:
            (cells,) = csv.reader([line], skipinitialspace=True)
        except csv.Error as error:
            raise InputError(f"Line {number} of the labels cannot be read ({error}).") from None
        yield from filter(None, map(split_words, cells))


def lines_of(text: str) -> list[str]:
    """Split a text into lines at any kind of line end."""
    return re.split(r"\r\n|\r|\n", text.lstrip("\ufeff"))


def to_text(labels: Iterable[str | Label]) -> str:
    """Write labels one per line; `Vocabulary.parse` reads the same labels back."""
    lines = []
    for label in labels:
        line = join_words((label,) if isinstance(label, str) else label.words)
        if "," in line or line[:1] in ('"', "#"):
            line = '"' + line.replace('"', '""') + '"'
        lines.append(line)
    return "\n".join(lines)
