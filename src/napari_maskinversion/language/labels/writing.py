"""Vocabularies as label files: text, CSV or YAML."""

from __future__ import annotations

from .csv_format import to_csv
from .files import form_of
from .text_format import to_text
from .vocabulary import Vocabulary
from .yaml_format import Words, to_yaml


def render(vocabulary: Vocabulary, suffix: str) -> bytes:
    """Write a vocabulary in the form of a file name's end.

    Returns
    -------
    bytes
        UTF-8; CSV begins with a byte order mark, without which Excel guesses another encoding.

    Raises
    ------
    InputError
        If the end is none of `SUFFIXES`.
    """
    form = form_of(suffix)
    if form == "YAML":
        words = Words(
            labels=vocabulary.entries,
            templates=vocabulary.templates,
            threshold=vocabulary.threshold,
        )
        return to_yaml(words).encode()
    if form == "CSV":
        return to_csv(vocabulary.entries).encode("utf-8-sig")
    return (to_text(vocabulary.entries) + "\n").encode()


def left_out(vocabulary: Vocabulary, suffix: str) -> list[str]:
    """Say what of a vocabulary a form has no place for."""
    form = form_of(suffix)
    lost = []
    if form == "text":
        lost += ["groups"] * any(vocabulary.groups) + ["colours"] * any(vocabulary.colors)
    if form != "YAML":
        usual = Vocabulary(("x",)).templates
        lost += ["prompts"] * (vocabulary.templates != usual)
        lost += ["threshold"] * (vocabulary.threshold is not None)
    return lost
