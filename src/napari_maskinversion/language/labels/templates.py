"""The sentences that labels are put into before they are compared with regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...base.errors import InputError
from .label import refuse_text

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
"""Sets of sentences by name: per kind of image, CLIP's ensemble of seven, and the bare label."""


def check_templates(templates: Sequence[str]) -> tuple[str, ...]:
    """Refuse sentences that cannot work; give them as a tuple.

    Raises
    ------
    InputError
        If there is none, one without exactly one ``{}``, or one twice.
    """
    refuse_text(templates, f"Templates must be a list of sentences; got the text {templates!r}.")
    if not templates:
        raise InputError("There is no prompt template; use '{}' for the bare label.")
    for template in templates:
        if template.count("{}") != 1:
            raise InputError(
                f"The template {template!r} needs exactly one {{}} where the label goes."
            )
    if len(set(templates)) < len(templates):
        twice = next(text for text in templates if list(templates).count(text) > 1)
        raise InputError(f"The template {twice!r} is given twice.")
    return tuple(templates)


def choose_templates(chosen: Sequence[str]) -> tuple[str, ...]:
    """Give the sentences of named sets and of own sentences, each once.

    Parameters
    ----------
    chosen : sequence of str
        Names in `TEMPLATES`, and sentences with one ``{}``.

    Raises
    ------
    InputError
        If a name is not known, or a sentence cannot work.
    """
    sentences: dict[str, None] = {}
    for text in chosen:
        if text not in TEMPLATES and "{}" not in text:
            raise InputError(
                f"Unknown template {text!r}; choose from {', '.join(TEMPLATES)}, "
                "or write a sentence with {} where the label goes."
            )
        sentences |= dict.fromkeys(TEMPLATES.get(text, (text,)))
    return check_templates(tuple(sentences))
