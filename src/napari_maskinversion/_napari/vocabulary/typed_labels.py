"""Labels as typed, and the marks that plain text cannot hold. No Qt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...base.errors import InputError
from ...language.labels.label import Label, clashes, parse_text, word_lists


@dataclass(frozen=True, slots=True)
class TypedLabels:
    """The labels in a text."""

    text: str  # As `Vocabulary.parse` reads it
    # Without groups and colours; empty where the text cannot be read
    labels: tuple[Label, ...] = ()
    repeated: int = 0  # Entries that repeat a label; their synonyms are kept
    problem: str = ""  # Why these labels cannot be used, or empty

    @classmethod
    def read(cls, text: str) -> TypedLabels:
        """Parse a text; errors become `problem`."""
        try:
            labels = tuple(parse_text(text))
            repeated = sum(1 for _ in word_lists(text)) - len(labels)
        except InputError as error:
            return cls(text, problem=str(error))
        for _, _, says in clashes(labels):
            return cls(text, labels, repeated, f"{says}; keep one of them.")
        return cls(text, labels, repeated)

    @property
    def summary(self) -> str:
        """One line for the user."""
        count = len(self.labels)
        if self.problem:
            return self.problem
        if not count:
            return "no words yet"
        message = f"{count:,} word{'s' * (count != 1)}"
        if self.repeated:
            message += f", {self.repeated:,} repeated"
        return message + (": every region gets it" if count == 1 else "")


class LabelMarks:
    """Groups and colours by label; they survive edits of the text."""

    def __init__(self) -> None:
        self._marks: dict[str, tuple[str, str]] = {}

    def remember(self, labels: Iterable[Label]) -> None:
        """Store the groups and colours of labels, also empty ones."""
        # Marks of other labels stay: undo may restore these labels.
        self._marks.update({label.name: (label.group, label.color) for label in labels})

    def known(self, labels: Iterable[Label]) -> dict[str, tuple[str, str]]:
        """Return group and colour by name, for labels that have any."""
        names = {label.name for label in labels}
        return {name: mark for name, mark in self._marks.items() if name in names and any(mark)}

    def marked(self, labels: Sequence[Label]) -> tuple[Label, ...]:
        """Return labels with their known groups and colours."""
        marks = [self._marks.get(label.name, ("", "")) for label in labels]
        return tuple(
            replace(label, group=group, color=color) if group or color else label
            for label, (group, color) in zip(labels, marks, strict=True)
        )
