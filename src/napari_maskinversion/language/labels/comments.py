"""Changing the labels in a text without losing its comments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from .label import Label
from .text_format import lines_of, to_text, word_lists


@dataclass(frozen=True, slots=True)
class _TextLabel:
    """A label in a text: the lines without labels above it, and its own line.

    The line is empty if it has other labels too.
    """

    name: str
    words: tuple[str, ...]
    above: tuple[str, ...]
    line: str


def rewrite(text: str, labels: Sequence[Label]) -> str:
    """Write labels into a text; comments, blank lines and unchanged lines stay.

    Comments stay above their label; if that label is gone, above the next one.
    """
    before, rest = _read(text)
    lines: list[str] = []
    names = [label.name for label in labels]
    matcher = SequenceMatcher(None, [label.name for label in before], names, autojunk=False)
    for _, first, last, start, end in matcher.get_opcodes():
        for place in range(max(last - first, end - start)):
            old = before[first + place] if first + place < last else None
            lines += () if old is None else old.above
            if start + place < end:
                label = labels[start + place]
                same = old is not None and old.line and old.words == label.words
                lines.append(old.line if old is not None and same else to_text([label]))
    return "\n".join([*lines, *rest])


def _read(text: str) -> tuple[list[_TextLabel], list[str]]:
    """Return the labels of a text, and the lines after the last one."""
    labels: list[_TextLabel] = []
    above: list[str] = []
    names: set[str] = set()
    for line in lines_of(text):
        entries = list(word_lists(line))
        if not entries:
            above.append(line)
        for name, *synonyms in entries:
            if name not in names:
                names.add(name)
                own_line = line if len(entries) == 1 else ""
                labels.append(_TextLabel(name, (name, *synonyms), tuple(above), own_line))
                above = []
    return labels, above
