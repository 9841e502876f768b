"""Labels as table rows of four texts. No Qt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ...base.errors import InputError
from ...language.labels.label import Label, clashes, join_words, split_words

COLUMNS: Final = ("Word", "Synonyms", "Group", "Colour")
COLOR: Final = COLUMNS.index("Colour")
Row = list[str]


class RowError(InputError):
    """A problem in one row."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(f"Row {row + 1}: {message}")
        self.row = row


def to_rows(labels: Iterable[Label]) -> list[Row]:
    """Return labels as rows; pipes separate synonyms."""
    return [[label.name, join_words(label.synonyms), label.group, label.color] for label in labels]


def from_rows(rows: Sequence[Row]) -> tuple[Label, ...]:
    """Convert rows to labels; skip empty rows."""
    labels, places = [], []
    for place, (name, synonyms, group, color) in enumerate(rows):
        if not any((name.strip(), synonyms.strip(), group.strip(), color.strip())):
            continue
        try:
            words = tuple(dict.fromkeys(split_words(synonyms)))
            labels.append(Label(name, words, group, color))
        except InputError as error:
            raise RowError(place, str(error)) from None
        places.append(place)
    for later, earlier, says in clashes(labels):
        raise RowError(places[later], f"{says} (see row {places[earlier] + 1}).")
    return tuple(labels)
