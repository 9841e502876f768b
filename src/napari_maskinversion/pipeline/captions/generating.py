"""Write captions from the embeddings of results."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.errors import InputError
from ...language.generation.settings import GenerationSettings, GenerationUse, scaled
from ...results.results import Results

if TYPE_CHECKING:
    import torch

    from ...engine.methods.registry import Method
    from ...language.captions.bank import CaptionBank
    from ...language.generation.decoder import CaptionDecoder
    from ...language.generation.loading import EmbeddingSpace
    from ...results.run_info import RunInfo


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
        from ...language.generation.registry import check_decoder

        memory = memory if self.memory is None else self.memory.folder
        check_decoder(self.decoder, model, file=self.file, memory=memory)
        if self.settings.norm == "cls" and not method.inverts:
            raise InputError(
                f"The norm of the whole image's embedding (cls) goes with MaskInversion; the "
                f"method {method.name} has no such embedding: use the norm 'optimised'."
            )

    def load(
        self,
        model: EmbeddingSpace,
        device: torch.device | str = "cpu",
    ) -> CaptionDecoder:
        """Load the decoder for a model, and download it first if necessary."""
        from ...language.generation.loading import load_decoder

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


@dataclass(frozen=True, slots=True)
class ModelOfRun:
    """The model of a run, as its results describe it."""

    name: str
    fingerprint: str
    embed_dim: int

    @classmethod
    def of(cls, info: RunInfo) -> ModelOfRun:
        """Return the model of a run."""
        return cls(info.model, info.fingerprint, info.embed_dim)


def generate_captions(results: Results, decoder: CaptionDecoder) -> Results:
    """Return results with a sentence for each region, written by a decoder; nothing is inverted."""
    settings, embeddings = decoder.settings, results.raw_embeddings
    if settings.norm == "cls":
        norms = [region.window.image_norm for region in results.regions]
        embeddings = scaled(embeddings, norms)
    sentences = decoder.generate(embeddings, settings)
    use = GenerationUse(decoder=decoder.name, weights=decoder.weights, settings=settings)
    return results.with_generated(sentences, use)
