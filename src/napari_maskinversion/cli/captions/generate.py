"""The command ``caption``: a sentence for each region, written by a decoder."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...base import progress_words as words
from ...base.identity import identify_image
from ...base.locks import hold
from ...base.progress import Tick, listening
from ...base.targets import check_targets
from ...language.generation.registry import DECODERS
from ...language.generation.settings import NORMS, SEARCHES, GenerationSettings, describe
from ...pipeline.captions import CaptionRequest, generate_captions
from ...pipeline.inputs import input_files, open_inputs, origin
from ...pipeline.run import check_tasks
from ...results.export.bundle import Bundle, compress_masks
from ...results.export.catalogue import check_formats, write_results
from ...results.printing import print_results
from ...results.settings import RunSettings
from ..console import INTERRUPTED, ProgressBar, say
from ..earlier_results import embedded_before
from ..loading import load, load_captioner
from ..options import (
    Formats,
    ImageFile,
    MaskFiles,
    Polygons,
    RawCsv,
    check_polygons,
    split_names,
    with_paper,
    with_settings,
)
from ..running import invert, say_unfinished
from .banks import CaptionSource

if TYPE_CHECKING:
    from ...language.generation.decoder import CaptionDecoder
    from ...results.results import Results

FORMATS: Final = "csv,json,npz"
_USUAL: Final = GenerationSettings()


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


@with_paper()
@with_settings("model", "method", "inversion", "input", "window", "planes", "units")
def caption_command(
    image: ImageFile,
    masks: MaskFiles,
    settings: RunSettings,
    decoder: Decoder = "demo",
    decoder_file: DecoderFile = None,
    memory: Memory = None,
    search: SearchOption = _USUAL.search,
    beams: Beams = _USUAL.beams,
    temperature: Temperature = _USUAL.temperature,
    max_tokens: MaxTokens = _USUAL.max_tokens,
    norm: NormOption = _USUAL.norm,
    results: Annotated[
        Path | None,
        typer.Option(
            help="results.npz of an earlier run --format npz on the same files, to reuse its "
            "embeddings. Model, settings and files must be the same."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "maskinversion_output"
    ),
    formats: Formats = FORMATS,
    overwrite: Annotated[bool, typer.Option(help="Replace results in the folder.")] = False,
    raw_csv: RawCsv = False,
    polygons: Polygons = False,
) -> None:
    """Write a sentence about each region of an image, from its embedding alone.

    The sentences go into the column generated_caption of the table and of every file. CLIPCap needs
    --model ViT-B-32/openai and the extra [captioning]; its weights (636 MB) are downloaded once.
    """
    how = GenerationSettings(
        search=search,  # type: ignore[arg-type]
        beams=beams,
        temperature=temperature,
        max_tokens=max_tokens,
        norm=norm,  # type: ignore[arg-type]
    )
    request = CaptionRequest(decoder=decoder, file=decoder_file, settings=how)
    request.check(settings.model, settings.method, memory)
    sentences = None if memory is None else CaptionSource(memory)
    settings.method.check()
    chosen = split_names(formats)
    names = check_formats(chosen)
    check_polygons(polygons, chosen)
    files = input_files(
        image, masks, decoder_file, memory, settings.model, results, settings.method.weights
    )
    check_targets([out / name for name in names], overwrite=overwrite, inputs=files)
    _held = hold(out)  # until this function returns
    inputs = open_inputs(image, masks, settings, say)
    check_tasks(inputs.tasks)
    source = origin(image, masks, settings, inputs.stack, inputs.coco_numbers)
    identity = asdict(identify_image(image.name, inputs.stack.levels[0]))
    model = load(settings.model, settings.architecture, settings.device)
    if sentences is not None:
        request = replace(request, memory=sentences.bank(model))
    writer = load_captioner(request, model)
    if results is None:
        embedded, finished = invert(model, inputs, None, settings)
    else:
        with inputs.stack:
            embedded = embedded_before(results, inputs, source, model, settings)
        finished = True
    captioned = _follow(embedded, writer)
    bundle = Bundle(
        results=captioned,
        masks=compress_masks(inputs.tasks),
        source=source,
        image=identity,
        raw_csv=raw_csv,
        polygons=polygons,
    )
    written = write_results(bundle, out, chosen, overwrite=overwrite)
    print_results(captioned)
    say(f"Wrote {', '.join(file.name for file in written)} in {out}")
    if not finished:
        say_unfinished(captioned, inputs)


def _follow(results: Results, decoder: CaptionDecoder) -> Results:
    """Write sentences under a progress bar; Ctrl-C ends the program."""
    with ProgressBar(remaining=True) as bar:

        def show(news: Tick) -> None:
            bar.show(words.WRITING_CAPTIONS, news.done, news.total)

        try:
            with listening(show):
                return generate_captions(results, decoder)
        except KeyboardInterrupt:
            say("Stopped before all sentences were written; nothing was saved.")
            raise typer.Exit(INTERRUPTED) from None
