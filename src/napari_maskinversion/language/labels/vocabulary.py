"""The words that regions are named with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Final

from ...base.errors import InputError
from .colors import fill_colors
from .files import read_words
from .label import Label, clashes, refuse_text
from .templates import TEMPLATES, check_templates
from .text_format import parse_text, to_text

__all__ = ["NONE_OF_THESE", "TEMPLATES", "Label", "Vocabulary", "to_text"]

NONE_OF_THESE: Final = "none of these"
"""The suggestion for a region whose best similarity is below the threshold."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Labels to choose from and the sentences they are put into.

    Parameters
    ----------
    labels : tuple of str
        Names; at least one, none blank, none twice.
    templates : tuple of str
        Each with one ``{}`` for the label; a word's embedding is the mean over them.
    synonyms : tuple of tuple of str
        Other words for each label, of which the best counts; () where no label has any. A
        synonym belongs to one label and is no label itself.
    groups, colors : tuple of str
        Group and colour (``#rrggbb``) of each label, "" for none; () where no label has any.
    threshold : float or None
        Cosine similarity, -1..1: a region whose best label is less similar is "none of these".

    Raises
    ------
    InputError
        If there is no label, or something else cannot work; names it.
    """

    labels: tuple[str, ...]
    templates: tuple[str, ...] = TEMPLATES["photo"]
    synonyms: tuple[tuple[str, ...], ...] = ()
    groups: tuple[str, ...] = ()
    colors: tuple[str, ...] = ()
    threshold: float | None = None

    def __post_init__(self) -> None:
        refuse_text(self.labels, "Labels must be a list of names; Vocabulary.parse reads a text.")
        if not self.labels:
            raise InputError("There are no labels; give at least one, for example: dog, cat.")
        entries = self.entries
        twice = [name for name, count in Counter(e.name for e in entries).items() if count > 1]
        if twice:
            raise InputError(f"These labels appear twice: {', '.join(sorted(twice))}.")
        for _, _, says in clashes(entries):
            raise InputError(f"{says}; keep one of them.")
        self._set(entries)
        object.__setattr__(self, "templates", check_templates(self.templates))
        if self.threshold is None:
            return
        if not _is_number(self.threshold) or not -1 <= self.threshold <= 1:
            raise InputError(
                "The threshold is a cosine similarity and must be a number from -1 to 1; "
                f"got {self.threshold!r}."
            )
        object.__setattr__(self, "threshold", float(self.threshold))
        if NONE_OF_THESE in self.labels:
            raise InputError(
                f"{NONE_OF_THESE!r} is what regions below the threshold are called; "
                "leave out the label or the threshold."
            )

    def _set(self, entries: Sequence[Label]) -> None:
        """Keep columns as `Label` has cleaned them, an empty one as ()."""
        columns = {
            "labels": tuple(entry.name for entry in entries),
            "synonyms": tuple(entry.synonyms for entry in entries),
            "groups": tuple(entry.group for entry in entries),
            "colors": tuple(entry.color for entry in entries),
        }
        for name, column in columns.items():
            object.__setattr__(self, name, column if any(column) else ())

    @property
    def entries(self) -> tuple[Label, ...]:
        """The labels with all that is said of them."""
        count = len(self.labels)
        columns: dict[str, Sequence[object]] = {
            "synonyms": self.synonyms or ((),) * count,
            "groups": self.groups or ("",) * count,
            "colors": self.colors or ("",) * count,
        }
        for name, column in columns.items():
            if len(column) != count:
                raise InputError(f"There are {count} labels but {len(column)} {name}.")
        return tuple(map(Label, self.labels, *columns.values()))

    @property
    def words(self) -> tuple[str, ...]:
        """Names and synonyms, label by label, the name first: what is embedded."""
        if not self.synonyms:
            return self.labels
        return tuple(
            word
            for name, more in zip(self.labels, self.synonyms, strict=True)
            for word in (name, *more)
        )

    @property
    def owners(self) -> tuple[int, ...]:
        """Place of each word's label, never falling."""
        synonyms = self.synonyms or ((),) * len(self.labels)
        return tuple(place for place, more in enumerate(synonyms) for _ in range(1 + len(more)))

    @classmethod
    def of(
        cls,
        entries: Iterable[Label],
        templates: tuple[str, ...] = TEMPLATES["photo"],
        threshold: float | None = None,
    ) -> Vocabulary:
        """Make a vocabulary of `Label`s.

        Raises
        ------
        InputError
            As the class itself.
        """
        made = tuple(entries)
        return cls(
            tuple(entry.name for entry in made),
            templates,
            tuple(entry.synonyms for entry in made),
            tuple(entry.group for entry in made),
            tuple(entry.color for entry in made),
            threshold,
        )

    @classmethod
    def parse(cls, text: str, templates: tuple[str, ...] = TEMPLATES["photo"]) -> Vocabulary:
        r"""Read labels from text: one per line, or separated by commas.

        Synonyms follow a label after ``|``: ``car | automobile``; a pipe that belongs to a word is
        written ``\|``. Blank entries and lines that begin with ``#`` are dropped, repeated labels
        kept once, with all their synonyms, in the order they first appear. An entry that holds a
        comma is written in double quotes.

        Raises
        ------
        InputError
            If no label is left, or a word stands for two labels.
        """
        return cls.of(parse_text(text), templates)

    @classmethod
    def read(cls, path: str | Path, templates: tuple[str, ...] | None = None) -> Vocabulary:
        """Read labels from a file (UTF-8).

        Text as `parse` reads it; ``.csv`` with the columns label, synonyms, group, colour (comma,
        semicolon or tab; without such a header it is text); ``.yaml`` or ``.yml``, see
        `label_yaml.parse_yaml`.

        Parameters
        ----------
        path : str or Path
        templates : tuple of str, optional
            Instead of the file's own, or of "photo" where it has none.

        Raises
        ------
        InputError
            If the file cannot be read, is no UTF-8 text, is broken, or holds no label; names the
            file, and the line where there is one.
        """
        words = read_words(path)
        chosen = templates or words.templates or TEMPLATES["photo"]
        try:
            return cls.of(words.labels, chosen, words.threshold)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def with_colors(self) -> Vocabulary:
        """Give a colour to each label that has none, different from all others."""
        return replace(self, colors=fill_colors(self.colors or ("",) * len(self.labels)))

    def prompts(self) -> list[list[str]]:
        """Sentences of each word (name or synonym), one list per word."""
        return [[t.replace("{}", word) for t in self.templates] for word in self.words]


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
