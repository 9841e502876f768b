"""The words that regions are named with."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..core.errors import InputError

TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "photo": ("a photo of a {}.",),
    "aerial": ("an aerial photo of a {}.", "a satellite image of {}."),
    "microscopy": ("a microscopy image of a {}.", "a {} under the microscope."),
    # The seven templates that CLIP's authors found to do the work of eighty.
    "ensemble": (
        "itap of a {}.",
        "a bad photo of the {}.",
        "a origami {}.",
        "a photo of the large {}.",
        "a {} in a video game.",
        "art of the {}.",
        "a photo of the small {}.",
    ),
    "none": ("{}",),
}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Labels to choose from and the sentences they are put into.

    Parameters
    ----------
    labels : tuple of str
        At least one, none blank, none twice.
    templates : tuple of str
        Each with one ``{}`` for the label; a label's embedding is the mean over them.

    Raises
    ------
    InputError
        If there is no label, or a template without its ``{}``.
    """

    labels: tuple[str, ...]
    templates: tuple[str, ...] = TEMPLATES["photo"]

    def __post_init__(self) -> None:
        if not self.labels:
            raise InputError("There are no labels; give at least one, for example: dog, cat.")
        for label in self.labels:
            if not label.strip():
                raise InputError("A label is blank; remove it.")
        twice = {label for label in self.labels if self.labels.count(label) > 1}
        if twice:
            raise InputError(f"These labels appear twice: {', '.join(sorted(twice))}.")
        if not self.templates:
            raise InputError("There is no prompt template; use '{}' for the bare label.")
        for template in self.templates:
            if template.count("{}") != 1:
                raise InputError(
                    f"The template {template!r} needs exactly one {{}} where the label goes."
                )

    @classmethod
    def parse(cls, text: str, templates: tuple[str, ...] = TEMPLATES["photo"]) -> Vocabulary:
        """Read labels from text: one per line, or separated by commas.

        Blank entries and lines that begin with ``#`` are dropped, repeated labels kept once, in
        the order they first appear. A label that holds a comma is written in double quotes.

        Raises
        ------
        InputError
            If no label is left.
        """
        lines = [line.strip() for line in re.split(r"\r\n|\r|\n", text.lstrip("\ufeff"))]
        lines = [line for line in lines if line and not line.startswith("#")]
        # A double quote counts only where it opens an entry, so that 5" is a label too; line by
        # line, so that one left open swallows nothing of the next.
        entries = [
            entry.strip()
            for line in lines
            for row in csv.reader([line], skipinitialspace=True)
            for entry in row
        ]
        return cls(tuple(dict.fromkeys(filter(None, entries))), templates)

    @classmethod
    def read(cls, path: str | Path, templates: tuple[str, ...] = TEMPLATES["photo"]) -> Vocabulary:
        """Read labels from a text file (UTF-8) as `parse` does.

        Raises
        ------
        InputError
            If the file cannot be read, is no UTF-8 text, or holds no label; names the file.
        """
        try:
            text = Path(path).read_text("utf-8-sig")
        except UnicodeDecodeError:
            raise InputError(f"{path} is not UTF-8 text; save it as UTF-8.") from None
        except OSError as error:
            raise InputError(f"Labels could not be read from {path}: {error.strerror}.") from None
        try:
            return cls.parse(text, templates)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None

    def prompts(self) -> list[list[str]]:
        """Sentences of each label, one list per label."""
        return [[t.replace("{}", label) for t in self.templates] for label in self.labels]


def to_text(labels: Sequence[str]) -> str:
    """Write labels one per line, so that `Vocabulary.parse` reads the same labels again."""
    return "\n".join(
        '"' + label.replace('"', '""') + '"' if "," in label or label[:1] in '"#' else label
        for label in labels
    )
