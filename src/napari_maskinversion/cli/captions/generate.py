"""The command ``caption``: a sentence for each region, written by a decoder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...base.progress import Tick
from ...base.progress_words import WRITING_CAPTIONS
from ...language.generation.registry import DECODERS
from ...language.generation.settings import NORMS, SEARCHES, GenerationSettings, describe
from ...pipeline.captions import CaptionRequest, generate_captions
from ...pipeline.job import open_job
from ...results.printing import print_results
from ...results.settings import RunSettings
from ..console import ProgressBar, following, say
from ..loading import load, load_captioner
from ..options import (
    EarlierResults,
    ImageFile,
    MaskFiles,
    Output,
    with_option_groups,
    with_paper,
    with_settings,
)
from ..running import embedded, say_unfinished
from .banks import CaptionSource

if TYPE_CHECKING:
    pass

_USUAL: Final = GenerationSettings()
_STOPPED: Final = "Stopped before all sentences were written; nothing was saved."
_OUTPUT: Final = Output(formats="csv,json,npz")

Decoder = Annotated[
    str,
    typer.Option(
        metavar="|".join(DECODERS),
        help="Decoder that writes the sentences; all except demo need another model.",
    ),
]
DecoderFile = Annotated[
    Path | None,
    typer.Option(help="File with the decoder's weights."),
]
Memory = Annotated[
    Path | None,
    typer.Option(
        help="DeCap checkpoints: a caption bank of the same model, or a file of sentences."
    ),
]
SearchOption = Annotated[str, typer.Option(metavar="|".join(SEARCHES), help=describe("search"))]
Beams = Annotated[int, typer.Option(help=describe("beams"))]
Temperature = Annotated[float, typer.Option(help=describe("temperature"))]
MaxTokens = Annotated[int | None, typer.Option(help=describe("max_tokens"))]
NormOption = Annotated[str, typer.Option(metavar="|".join(NORMS), help=describe("norm"))]


def _show(bar: ProgressBar, news: Tick) -> None:
    bar.show(WRITING_CAPTIONS, news.done, news.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderOptions:
    """The decoder of captions, and how it chooses words."""

    decoder: Decoder = "demo"
    decoder_file: DecoderFile = None
    memory: Memory = None
    search: SearchOption = _USUAL.search
    beams: Beams = _USUAL.beams
    temperature: Temperature = _USUAL.temperature
    max_tokens: MaxTokens = _USUAL.max_tokens
    norm: NormOption = _USUAL.norm

    @property
    def request(self) -> CaptionRequest:
        """What is to be written, without the bank of ``memory``."""
        how = GenerationSettings(
            search=self.search,  # type: ignore[arg-type]
            beams=self.beams,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            norm=self.norm,  # type: ignore[arg-type]
        )
        return CaptionRequest(decoder=self.decoder, file=self.decoder_file, settings=how)


@with_paper()
@with_settings("model", "method", "inversion", "input", "window", "planes", "units")
@with_option_groups
def caption_command(
    image: ImageFile,
    masks: MaskFiles,
    settings: RunSettings,
    writing: DecoderOptions,
    results: EarlierResults = None,
    output: Output = _OUTPUT,
) -> None:
    """Write a sentence about each region of an image, from its embedding alone.

    The sentences go into the column generated_caption of the table and of every file. CLIPCap needs
    --model ViT-B-32/openai and the extra [captioning]; its weights (636 MB) are downloaded once.
    """
    request, memory = writing.request, writing.memory
    request.check(settings.model, settings.method, memory)
    sentences = None if memory is None else CaptionSource(memory)
    read = (image, masks, writing.decoder_file, memory, settings.model, results)
    _held = output.begin(*read, settings.method.weights)  # until this function returns
    with open_job(image, masks, settings, say) as job:
        model = load(settings.model, settings.architecture, settings.device)
        if sentences is not None:
            request = replace(request, memory=sentences.bank(model))
        writer = load_captioner(request, model)
        embeddings, finished = embedded(model, job, results)
        with following(_show, remaining=True, stopped=lambda: _STOPPED):
            captioned = generate_captions(embeddings, writer)
        written = output.write(job.bundle(captioned))
    print_results(captioned)
    say(written)
    if not finished:
        say_unfinished(captioned, job)
