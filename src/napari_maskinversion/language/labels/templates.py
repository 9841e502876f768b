"""Prompt templates: the sentences that labels are put into before they are embedded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...base.errors import InputError
from ...base.validation import CONTROL
from .label import refuse_text

TEMPLATES: Final[dict[str, tuple[str, ...]]] = {
    "photo": ("a photo of a {}.",),
    "aerial": ("an aerial photo of a {}.", "a satellite image of {}."),
    "microscopy": ("a microscopy image of a {}.", "a {} under the microscope."),
    # Seven templates that do nearly as well as all eighty (CLIP's prompt engineering notebook).
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
"""Sets of templates by name: per kind of image, CLIP's ensemble of seven, and the bare label."""


def check_templates(templates: Sequence[str]) -> tuple[str, ...]:
    """Check templates and return them as a tuple."""
    refuse_text(templates, f"Templates must be a list of sentences; got the text {templates!r}.")
    if not templates:
        raise InputError("There is no prompt template; use '{}' for the bare label.")
    for template in templates:
        if template.count("{}") != 1:
            raise InputError(
                f"The template {template!r} needs exactly one {{}} where the label goes."
            )
        if CONTROL.search(template):
            raise InputError(
                f"The template {template!r} has a character that cannot be shown; remove it."
            )
    if len(set(templates)) < len(templates):
        twice = next(text for text in templates if list(templates).count(text) > 1)
        raise InputError(f"The template {twice!r} appears twice.")
    return tuple(templates)


def choose_templates(names: Sequence[str]) -> tuple[str, ...]:
    """Return the templates of named sets and your own sentences, each once."""
    sentences: dict[str, None] = {}
    for text in names:
        if text not in TEMPLATES and "{}" not in text:
            raise InputError(
                f"Unknown template {text!r}; choose from {', '.join(TEMPLATES)}, "
                "or write a sentence with {} where the label goes."
            )
        sentences |= dict.fromkeys(TEMPLATES.get(text, (text,)))
    return check_templates(tuple(sentences))
