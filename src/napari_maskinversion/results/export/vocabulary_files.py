"""Vocabularies as files that people and other programs read."""

from __future__ import annotations

from pathlib import Path

from ...base.atomic_files import atomic_path
from ...base.errors import InputError
from ...language.labels.vocabulary import Vocabulary
from ...language.labels.writing import render


def save_vocabulary(vocabulary: Vocabulary, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a vocabulary as text, CSV or YAML, by the end of the file's name, whole or not at all.

    YAML keeps everything; CSV has no prompts and no threshold; text has no groups and no colours
    either.

    Parameters
    ----------
    vocabulary : Vocabulary
    path : str or Path
        ``.txt``, ``.csv``, ``.yaml`` or ``.yml``.
    overwrite : bool
        Replace a file that is there.

    Raises
    ------
    InputError
        If the file's name ends otherwise, the file exists and is not to be replaced, or it cannot
        be written; names it.
    """
    target = Path(path)
    data = render(vocabulary, target.suffix)
    if target.exists() and not overwrite:
        raise InputError(f"{target} exists; choose another name, or say to overwrite it.")
    with atomic_path(target) as part:
        part.write_bytes(data)
