"""Captions of results: found in a bank, during a run or afterwards, or written by a decoder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ..base.errors import InputError
from ..language.captions.bank import TOP, CaptionBank, CaptionUse, ModelIdentity
from ..language.generation.settings import GenerationSettings, GenerationUse, scaled
from ..results.results import Results

if TYPE_CHECKING:
    import torch

    from ..engine.methods.registry import Method
    from ..engine.models.backbone import Backbone
    from ..language.generation.decoder import CaptionDecoder
    from ..results.run_info import RunInfo

# Bank values compared in the time a small model takes for one region.
_A_REGION: Final = 20_000_000


def model_of_run(info: RunInfo) -> ModelIdentity:
    """Return the model of a run."""
    return ModelIdentity(info.model, info.fingerprint, info.embed_dim)


class Captioner:
    """Finds captions for the regions of a run.

    A search reads the whole bank, for one region or a hundred. Regions therefore wait until
    inverting them has taken as long as a search; with small banks none waits.
    """

    def __init__(
        self,
        bank: CaptionBank,
        model: Backbone | ModelIdentity,
        top: int,
        device: torch.device | str,
    ) -> None:
        bank.check(model)
        self._bank = bank
        self._top = top
        self._device = device
        self._patience = max(1, len(bank) * bank.record.embed_dim // _A_REGION)

    def update(self, results: Results, *, last: bool) -> Results:
        """Return results with captions for the waiting regions, once enough wait or at the end."""
        waiting = []
        for row, region in enumerate(results.regions):
            if region.captions is None:
                waiting.append(row)
        if not waiting or (len(waiting) < self._patience and not last):
            return results
        unit = np.stack([results.regions[row].embedding for row in waiting])
        matches = self._bank.search(unit, self._top, device=self._device)
        regions = list(results.regions)
        for row, captions_of_row in zip(waiting, matches, strict=True):
            regions[row] = replace(regions[row], captions=captions_of_row)
        return Results(results.info, tuple(regions))


def add_captions(
    results: Results,
    bank: CaptionBank,
    model: Backbone | None = None,
    top: int = TOP,
    *,
    again: bool = False,
) -> Results:
    """Return results with captions from a bank; nothing is inverted."""
    info = results.info
    device = "cpu" if model is None else model.device
    captioner = Captioner(bank, model or model_of_run(info), top, device)
    use = CaptionUse(bank.record, top)
    regions = results.regions
    if again or results.info.captions != use:
        regions = tuple(replace(region, captions=None) for region in regions)
    return captioner.update(Results(replace(results.info, captions=use), regions), last=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionRequest:
    """Which decoder writes captions, and how."""

    decoder: str = "demo"  # "demo", "clipcap-coco", "clipcap-conceptual" or "decap"
    file: Path | None = None  # Weights of your own
    memory: CaptionBank | None = None  # For DeCap checkpoints
    settings: GenerationSettings = field(default_factory=GenerationSettings)

    def check(self, model: str, method: Method, memory: Path | None = None) -> None:
        """Refuse what cannot work with a model of this name, before anything is loaded.

        ``memory`` is the place of a bank that is not open yet.
        """
        from ..language.generation.registry import check_decoder

        memory = memory if self.memory is None else self.memory.folder
        check_decoder(self.decoder, model, file=self.file, memory=memory)
        if self.settings.norm == "cls" and not method.inverts:
            raise InputError(
                f"The norm of the whole image's embedding (cls) goes with MaskInversion; the "
                f"method {method.name} has no such embedding: use the norm 'optimised'."
            )

    def load(
        self,
        model: Backbone | ModelIdentity,
        device: torch.device | str = "cpu",
    ) -> CaptionDecoder:
        """Load the decoder for a model, and download it first if necessary."""
        from ..language.generation.registry import load_decoder

        decoder = load_decoder(
            self.decoder,
            model,
            file=self.file,
            memory=self.memory,
            device=device,
            settings=self.settings,
        )
        decoder.check(self.settings)
        return decoder


def generate_captions(results: Results, decoder: CaptionDecoder) -> Results:
    """Return results with a sentence for each region, written by a decoder; nothing is inverted."""
    settings = decoder.settings
    embeddings = results.raw_embeddings
    if settings.norm == "cls":
        norms = [region.window.image_norm for region in results.regions]
        embeddings = scaled(embeddings, norms)
    sentences = decoder.generate(embeddings, settings)
    use = GenerationUse(decoder=decoder.name, weights=decoder.weights, settings=settings)
    return results.with_generated(sentences, use)
