"""Labels put into a text that somebody wrote, whose comments stay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from .label import Label
from .text_format import entries, lines_of, to_text


@dataclass(frozen=True, slots=True)
class _Written:
    """A label of the text: the lines without labels above it, and its own line.

    The line is empty where it holds other labels too.
    """

    name: str
    words: tuple[str, ...]
    above: tuple[str, ...]
    line: str


def rewrite(text: str, labels: Sequence[Label]) -> str:
    """Give a text of these labels that keeps comments, blank lines and lines that still hold.

    Comments stay above the label they stood above; where that one is gone, above what followed.

    Parameters
    ----------
    text : str
        That `parse_text` can read.
    labels : sequence of Label
        Those of the text with some changed, added or removed. Groups and colours have no place.
    """
    before, rest = _read(text)
    lines: list[str] = []
    names = [label.name for label in labels]
    matcher = SequenceMatcher(None, [one.name for one in before], names, autojunk=False)
    for _, first, last, start, end in matcher.get_opcodes():
        for place in range(max(last - first, end - start)):
            old = before[first + place] if first + place < last else None
            lines += () if old is None else old.above
            if start + place < end:
                label = labels[start + place]
                held = old is not None and old.line and old.words == label.words
                lines.append(old.line if old is not None and held else to_text([label]))
    return "\n".join([*lines, *rest])


def _read(text: str) -> tuple[list[_Written], list[str]]:
    """Give the labels of a text as they are written, and the lines after the last one."""
    found: list[_Written] = []
    above: list[str] = []
    known: set[str] = set()
    for line, here in _lines(text):
        if not here:
            above.append(line)
            continue
        alone = len(here) == 1
        for name, *synonyms in here:
            if name not in known:
                known.add(name)
                words = (name, *synonyms)
                found.append(_Written(name, words, tuple(above), line if alone else ""))
                above = []
    return found, above


def _lines(text: str) -> Iterator[tuple[str, list[list[str]]]]:
    for line in lines_of(text):
        yield line, list(entries(line))
