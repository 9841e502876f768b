"""The field that an image or its words belong to, for the choice of a model. A guess, in a line."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

from ...engine.models.specs import MODELS, Domain
from .label import TEMPLATES

_FILES: Final[dict[Domain, tuple[str, ...]]] = {
    "microscopy": (".nd2", ".czi", ".lif", ".lsm", ".oib", ".oir", ".ims", ".dv"),
    "pathology": (".svs", ".ndpi", ".mrxs", ".scn", ".bif", ".vsi"),
}
_WORDS: Final[dict[Domain, str]] = {
    "pathology": "tumou?r|carcinoma|gland|stroma|necrosis|epitheli\\w+|lymphocytes?|h&e",
    "microscopy": "cells?|nucle(?:us|i|olus)|mitos\\w+|mitochondri\\w+|cytoplasm|platelets?|"
    "bacteri\\w+|organoids?|erythrocytes?|leukocytes?|dapi|gfp|hoechst",
    "aerial": "roofs?|airports?|runways?|harbou?rs?|storage tanks?|roundabouts?|parking lots?|"
    "farmland|cropland|land cover|satellite|residential|solar panels?",
    "biology": "species|genus|beetles?|moths?|butterfl(?:y|ies)|orchids?|fung(?:us|i)|sparrows?",
}
_ENOUGH: Final = 1 / 3  # of the words


def field_of(
    *, file: str | None, georeferenced: bool, names: Iterable[str], templates: Iterable[str] = ()
) -> tuple[Domain, str] | None:
    """Return the field of an image and why; None where nothing tells it.

    ``names`` are labels and names of channels.
    """
    if georeferenced:
        return "aerial", "The image has map coordinates"
    ending = PurePath(file or "").suffix.lower()
    for domain, endings in _FILES.items():
        if ending in endings:
            return domain, f"The image is a {ending} file"
    chosen = tuple(templates)
    for domain in ("aerial", "microscopy", "pathology"):
        if chosen == TEMPLATES[domain]:
            return domain, f"The prompts are those for {domain}"
    names = list(names)
    for domain, words in _WORDS.items():
        named = []
        for name in names:
            if re.search(rf"\b(?:{words})\b", name.lower()):
                named.append(name)
        if named and len(named) >= _ENOUGH * len(names):
            return domain, f"The words name {named[0]}"
    return None


def models_for(guess: tuple[Domain, str] | None, chosen: str) -> str:
    """Return a line with the models of a field; "" if the chosen one is among them."""
    spec = MODELS.get(chosen)
    if guess is None or spec is None or spec.domain == guess[0]:
        return ""
    names = []
    for spec in MODELS.values():
        if spec.domain == guess[0]:
            names.append(spec.name)
    return f"{guess[1]}: models trained on {guess[0]} are {', '.join(names)}."
