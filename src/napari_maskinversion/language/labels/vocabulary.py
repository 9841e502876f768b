"""The labels that regions can get, and the sentences they are put into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

from ...base.errors import InputError
from .files import LabelFile, read_label_file, write_label_file
from .label import (
    NONE_OF_THESE,
    TEMPLATES,
    Label,
    check_templates,
    clashes,
    fill_colors,
    parse_text,
    to_text,
)
from .learned import Learned

__all__ = ["NONE_OF_THESE", "TEMPLATES", "Label", "Vocabulary", "to_text"]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Labels to choose from, and prompt templates."""

    labels: tuple[str, ...]  # Names; at least one, none blank, none twice
    # Each with one ``{}`` for the label; a word's embedding is the mean over them
    templates: tuple[str, ...] = TEMPLATES["photo"]
    # Other words for each label; the best one counts; () if no label has any. A synonym belongs to
    # one label and is not itself a label.
    synonyms: tuple[tuple[str, ...], ...] = ()
    # Group and colour (``#rrggbb``) of each label, "" for none; () if no label has any
    groups: tuple[str, ...] = ()
    colors: tuple[str, ...] = ()
    # Cosine similarity, -1..1: a region whose best label is less similar is "none of these"
    threshold: float | None = None
    learned: Learned | None = None  # The classifier that ranks the labels; None: their words do

    def __post_init__(self) -> None:
        if isinstance(self.labels, str):  # type: ignore[unreachable]  # letters would be the labels
            raise InputError("Labels must be a list of names; Vocabulary.parse reads a text.")
        if not self.labels:
            raise InputError("There are no labels; give at least one, for example: dog, cat.")
        labels = self.full_labels
        counts = Counter(label.name for label in labels)
        repeated = sorted(name for name, count in counts.items() if count > 1)
        if repeated:
            raise InputError(f"These labels appear twice: {', '.join(repeated)}.")
        for _, _, problem in clashes(labels):
            raise InputError(f"{problem}; keep one of them.")
        for name, column in _columns(labels).items():
            object.__setattr__(self, name, column)
        object.__setattr__(self, "templates", check_templates(self.templates))
        if self.threshold is None:
            return
        if not -1 <= self.threshold <= 1:
            raise InputError(
                "The threshold is a cosine similarity and must be a number from -1 to 1; "
                f"got {self.threshold!r}."
            )
        object.__setattr__(self, "threshold", float(self.threshold))
        if NONE_OF_THESE in self.labels:
            raise InputError(
                f"Regions below the threshold are called {NONE_OF_THESE!r}; leave out the label "
                "or the threshold."
            )

    @property
    def full_labels(self) -> tuple[Label, ...]:
        """The labels with synonyms, group and colour."""
        count = len(self.labels)
        synonyms = self.synonyms or ((),) * count
        nothing = ("",) * count
        columns = (self.labels, synonyms, self.groups or nothing, self.colors or nothing)
        return tuple(Label(*fields) for fields in zip(*columns, strict=True))

    @property
    def chosen(self) -> Vocabulary:
        """The words as they were chosen, without what the decisions of a review have added."""
        if self.learned is None or self.learned.is_saved:
            return self
        begun_as = self.learned.begun_as
        return _chosen(self, None if begun_as is None else begun_as.file)

    @property
    def words(self) -> tuple[str, ...]:
        """Names and synonyms, label by label, the name first: the words to embed."""
        return tuple(chain.from_iterable(self._words))

    @property
    def owners(self) -> tuple[int, ...]:
        """Index of each word's label, in ascending order."""
        owners: list[int] = []
        for index, words in enumerate(self._words):
            owners += [index] * len(words)
        return tuple(owners)

    @property
    def _words(self) -> list[tuple[str, ...]]:
        synonyms = self.synonyms or ((),) * len(self.labels)
        return [(name, *more) for name, more in zip(self.labels, synonyms, strict=True)]

    @classmethod
    def of(
        cls,
        labels: Iterable[Label],
        templates: tuple[str, ...] = TEMPLATES["photo"],
        threshold: float | None = None,
    ) -> Vocabulary:
        """Make a vocabulary of `Label` objects."""
        return cls(**_columns(tuple(labels)), templates=templates, threshold=threshold)

    @classmethod
    def parse(cls, text: str, templates: tuple[str, ...] = TEMPLATES["photo"]) -> Vocabulary:
        r"""Read labels from text: one per line, or separated by commas.

        Synonyms follow a label after ``|``: ``car | automobile``; write ``\|`` for a pipe in a
        word, and double quotes around an entry with a comma. Blank entries and lines that begin
        with ``#`` are ignored. Repeated labels are merged with all their synonyms, in the order
        they first appear.
        """
        return cls.of(parse_text(text), templates)

    @classmethod
    def read(cls, path: str | Path, templates: tuple[str, ...] | None = None) -> Vocabulary:
        """Read labels from a file (UTF-8).

        The suffix decides: ``.csv`` with the columns label, synonyms, group, colour (comma,
        semicolon or tab; without such a header it is text); ``.yaml`` or ``.yml``, see
        `parse_yaml`; anything else is text, see `parse`.
        """
        content = read_label_file(path)
        chosen = templates or content.templates or TEMPLATES["photo"]
        try:
            read = cls.of(content.labels, chosen, content.threshold)
            return replace(read, learned=content.learned)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    @property
    def content(self) -> LabelFile:
        """The vocabulary as the content of a label file."""
        return LabelFile(
            labels=self.full_labels,
            templates=self.templates,
            threshold=self.threshold,
            learned=self.learned,
        )

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write a text, CSV or YAML file, whole or not at all.

        YAML keeps everything, CSV neither prompts nor threshold, and text neither groups nor
        colours either.
        """
        write_label_file(self.content, Path(path), overwrite=overwrite)

    def with_colors(self) -> Vocabulary:
        """Return a vocabulary in which every label has a colour, each a different one."""
        return replace(self, colors=fill_colors(self.colors or ("",) * len(self.labels)))

    def prompts(self) -> list[list[str]]:
        """Return the sentences of each word (name or synonym), one list per word."""
        prompts = []
        for word in self.words:
            prompts.append([template.replace("{}", word) for template in self.templates])
        return prompts


@lru_cache(maxsize=8)  # The panel asks at each change of anything
def _chosen(vocabulary: Vocabulary, file: Path | None) -> Vocabulary:
    """Return the words that were chosen; ``file`` tells equal ones apart."""
    learned = vocabulary.learned
    assert learned is not None  # else there is nothing to leave out
    by_name = {label.name: label for label in vocabulary.full_labels}
    labels = [by_name.get(name, Label(name)) for name in learned.chosen]
    words = Vocabulary.of(labels, vocabulary.templates, vocabulary.threshold)
    return replace(words, learned=learned.begun_as)


def _columns(labels: Sequence[Label]) -> dict[str, Any]:
    """Fields of a vocabulary, an empty column as ()."""
    fields = {"labels": "name", "synonyms": "synonyms", "groups": "group", "colors": "color"}
    columns: dict[str, tuple[object, ...]] = {}
    for name, field in fields.items():
        column = tuple(map(attrgetter(field), labels))
        columns[name] = column if any(column) else ()
    return columns
