"""What is typed to find regions: ``a red cell, not debris``.

Commas separate, a leading "not" marks what to avoid; quotes keep both as text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.validation import without_hidden
from ..labels.label import check_templates

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]
_PARTS: Final = re.compile(r'(?:"[^"]*"|[^,])+')
_PART: Final = re.compile(r'(not\s+)?("?)(.*)\2', re.IGNORECASE | re.DOTALL)


def wanted_and_not(*texts: str) -> tuple[list[str], list[str]]:
    """Return the words that are looked for, and those that are to be avoided."""
    words: tuple[list[str], list[str]] = [], []
    for part in chain.from_iterable(map(_PARTS.findall, texts)):
        fits = _PART.fullmatch(part.strip())
        assert fits is not None
        if not fits[2] and fits[3].casefold() == "not":
            raise InputError("Nothing follows 'not': name what to avoid, or quote it as \"not\".")
        if without_hidden(fits[3]).strip():
            words[fits[1] is not None].append(" ".join(fits[3].split()))
    return words


def label_of(query: str) -> str:
    """Return what to call that which is found."""
    return ", ".join(wanted_and_not(query)[0])


def check_query(query: str, templates: Sequence[str] = ("{}",)) -> None:
    """Refuse what cannot be found before a model is loaded."""
    wanted, unwanted = wanted_and_not(query)
    if unwanted and not wanted:
        direction([])
    check_expression(" ".join(wanted), templates)


def embed_query(model: Backbone, query: str, templates: Sequence[str] = ("{}",)) -> FloatArray:
    """Embed what is typed: a unit vector, shape (e,), float32."""
    check_query(query, templates)
    wanted, unwanted = wanted_and_not(query)
    vectors = [embed_expression(model, expression, templates) for expression in wanted]
    avoided = []
    for expression in unwanted:
        avoided.append(embed_expression(model, expression, templates))
    return direction(vectors, avoided)


def direction(wanted: Sequence[FloatArray], unwanted: Sequence[FloatArray] = ()) -> FloatArray:
    """Return the unit vector of the mean of unit vectors minus the mean of others.

    Shapes: wanted, unwanted, returns (width,).
    """
    if not wanted:
        raise InputError("Name a word or a region to look for, besides those to avoid.")
    mean = np.asarray(wanted, np.float64).mean(0)
    if len(unwanted):
        mean = mean - np.asarray(unwanted, np.float64).mean(0)
    length = float(np.linalg.norm(mean))
    if length < 1e-6:
        raise InputError("What is looked for and what is to be avoided are the same.")
    return np.asarray(mean / length, np.float32)


def check_expression(expression: str, templates: Sequence[str] = ("{}",)) -> None:
    """Refuse an invalid expression before a model is loaded."""
    if not without_hidden(expression).strip():
        raise InputError(
            "The expression is blank; describe the region, for example: the dog on the left."
        )
    check_templates(templates)


def embed_expression(
    model: Backbone, expression: str, templates: Sequence[str] = ("{}",)
) -> FloatArray:
    """Embed an expression: the normalised mean over templates, shape (e,), float32."""
    check_expression(expression, templates)
    words = " ".join(expression.split())
    mean = model.encode_text([template.replace("{}", words) for template in templates]).mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), dtype=np.float32)
