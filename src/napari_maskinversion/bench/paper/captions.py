"""The generator of captions of Table 6, and the judge of what they say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...language.generation.loading import load_decoder
from ...language.generation.registry import check_decoder
from ..content import content_of
from ..measures.captioning import Captioner
from .backbones import USUAL, Backbones, why_missing

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

READER: Final = "B/32"  # the paper's decoder reads embeddings of this backbone
JUDGE: Final = "L/14"


def captioner(
    decoder: str | None,
    file: Path | None,
    backbones: Backbones,
    load: Callable[[str], Backbone],
) -> tuple[Captioner | None, str]:
    """Return a captioner, or why captions are not measured.

    Parameters
    ----------
    decoder : str or None
        Name of a caption decoder.
    file : Path, optional
        Its weights, instead of the published ones.
    backbones : Backbones
        The judge is the paper's ViT-L/14, or the model that stands in for it.
    load : callable
        Loads a model by name.

    Raises
    ------
    MaskInversionError
        If there is no such decoder, it is for another model, or its file cannot be used.
    """
    if decoder is None:
        return None, "needs a generator of captions (--decoder clipcap-coco)"
    reader = backbones.models.get(READER)
    if reader is None:
        return None, backbones.lacks[READER]
    judge = backbones.models.get(JUDGE, USUAL[JUDGE])
    if why := why_missing(judge):
        return None, f"the judge {why}"
    check_decoder(decoder, reader, file=file)
    weights = "" if file is None else content_of(file)
    name = " ".join(part for part in (decoder, weights, "judged by", judge) if part)
    return Captioner(
        name,
        make=lambda model: load_decoder(decoder, model, file=file, device=model.device),
        load_judge=lambda: load(judge),
    ), ""
