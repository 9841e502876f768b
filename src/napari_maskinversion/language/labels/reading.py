"""Labels as users write them: names, one text, a file, or a preset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ...base.errors import InputError
from .files import FILE_SUFFIXES
from .presets import PREFIX, preset
from .templates import TEMPLATES, choose_templates
from .vocabulary import Vocabulary


def vocabulary_of(
    labels: str | Sequence[str] | Vocabulary,
    templates: Sequence[str] = (),
    threshold: float | None = None,
) -> Vocabulary:
    """Return labels and the prompts they are put into."""
    templates = (templates,) if isinstance(templates, str) else templates
    labels = os.fspath(labels) if isinstance(labels, os.PathLike) else labels
    chosen = choose_templates(templates) if templates else None
    if isinstance(labels, str) and os.path.isfile(labels):  # noqa: PTH113 - long texts are no path
        if Path(labels).name == labels and not Path(labels).suffix:
            raise InputError(
                f"{labels!r} is a word and also a file; write ./{labels} for the file, or "
                f"'{labels},' for the word."
            )
        vocabulary = Vocabulary.read(labels, chosen)
    elif isinstance(labels, str) and Path(labels).suffix.lower() in FILE_SUFFIXES:
        raise InputError(f"There is no label file at {labels}; check the path.")
    elif isinstance(labels, str) and not labels.startswith(PREFIX):
        vocabulary = Vocabulary.parse(labels, chosen or TEMPLATES["photo"])
        if len(vocabulary.labels) == 1 and ";" in labels:
            raise InputError(f"Write commas between labels, not semicolons; got {labels[:80]!r}.")
    else:
        if isinstance(labels, str):
            labels = preset(labels).vocabulary
        elif not isinstance(labels, Vocabulary):
            labels = Vocabulary(_texts(labels))
        vocabulary = labels if chosen is None else replace(labels, templates=chosen)
    return vocabulary if threshold is None else replace(vocabulary, threshold=threshold)


def _texts(labels: Iterable[object]) -> tuple[str, ...]:
    names = tuple(labels)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"Labels are texts; got {name!r}.")
    return tuple(map(str, names))
