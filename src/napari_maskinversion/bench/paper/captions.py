"""The generator of captions of Table 6, and the judge of what they say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...engine.methods.registry import Method
from ...pipeline.captions.generating import CaptionRequest
from ..content import content_of
from ..measures.captioning import Captioner
from .backbones import USUAL, Backbones, parts_of, why_missing

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone
    from ...language.generation.decoder import SentenceGenerator

READER: Final = "B/32"  # the paper's decoder reads embeddings of this backbone
JUDGE: Final = "L/14"


def captioner(
    request: CaptionRequest | None,
    backbones: Backbones,
    make: Callable[[Backbone], SentenceGenerator],
    load: Callable[[str], Backbone],
    *,
    memory: Path | None = None,
    sentences: str = "",
) -> tuple[Captioner | None, str]:
    """Return a captioner, or why captions are not measured."""
    if request is None:
        return None, "needs a generator of captions (--decoder clipcap-coco)"
    reader = backbones.models.get(READER)
    if reader is None:
        return None, backbones.lacks[READER]
    judge = backbones.models.get(JUDGE, USUAL[JUDGE])
    if why := why_missing(judge):
        return None, f"the judge {why}"
    request.check(parts_of(reader)[0], Method(), memory)
    weights = "" if request.file is None else content_of(request.file)
    how = json.dumps(asdict(request.settings))  # records of other settings are made again
    name = " ".join(
        part for part in (request.decoder, weights, sentences, how, "judged by", judge) if part
    )
    return Captioner(name, make=make, load_judge=lambda: load(judge)), ""
