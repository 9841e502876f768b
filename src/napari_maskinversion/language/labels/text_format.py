"""Labels as plain text: one per line or separated by commas, synonyms after a pipe."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator

from ...base.errors import InputError
from .label import Label, join_words, split_words


def parse_text(text: str) -> list[Label]:
    """Read labels from text; see `Vocabulary.parse`.

    Raises
    ------
    InputError
        If a line is too long to be one.
    """
    found: dict[str, dict[str, None]] = {}
    for name, *synonyms in entries(text):
        found.setdefault(name, {}).update(dict.fromkeys(synonyms))
    return [
        Label(name, tuple(word for word in synonyms if word != name))
        for name, synonyms in found.items()
    ]


def entries(text: str) -> Iterator[list[str]]:
    """Give the words of each entry, the name first, also of those that repeat a label.

    Raises
    ------
    InputError
        If a line is too long to be one.
    """
    for number, line in enumerate(map(str.strip, lines_of(text)), 1):
        if not line or line.startswith("#"):
            continue
        # A double quote counts only where it opens an entry, so that 5" is a label too; line by
        # line, so that one left open swallows nothing of the next.
        try:
            (cells,) = csv.reader([line], skipinitialspace=True)
        except csv.Error as error:
            raise InputError(f"Line {number} of the labels cannot be read ({error}).") from None
        yield from filter(None, map(split_words, cells))


def lines_of(text: str) -> list[str]:
    """Divide a text into its lines, whatever ends them."""
    return re.split(r"\r\n|\r|\n", text.lstrip("\ufeff"))


def to_text(labels: Iterable[str | Label]) -> str:
    """Write labels one per line, so that `Vocabulary.parse` reads the same labels again.

    Parameters
    ----------
    labels : iterable of str or Label
        A plain string is a name, whatever it holds. Groups and colours have no place in text.
    """
    lines = []
    for label in labels:
        line = join_words((label,) if isinstance(label, str) else label.words)
        if "," in line or line[:1] in ('"', "#"):
            line = '"' + line.replace('"', '""') + '"'
        lines.append(line)
    return "\n".join(lines)
