"""The command ``bench captions``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...base.errors import InputError
from ...engine.methods.registry import Method
from ...pipeline.captions import CaptionRequest
from ..captions.generate import Decoder, DecoderFile
from ..loading import load_captioner
from ..options import with_option_groups
from .scenes import (
    Device,
    ModelName,
    Output,
    RealImages,
    Scenes,
    Sprites,
    check_sprites,
    follow,
    real_folder,
    subject_of_name,
)

if TYPE_CHECKING:
    from ...bench.model_under_test import ModelUnderTest
    from ...language.generation.decoder import CaptionDecoder

KIND: Final = "captions"
PerClass = Annotated[int, typer.Option(help="Most real regions of a class.")]


@with_option_groups
def bench_captions_command(
    *,
    model: ModelName = "demo",
    decoder: Decoder = "demo",
    decoder_file: DecoderFile = None,
    scenes: Scenes = 60,
    real: Annotated[
        bool | None,
        typer.Option("--real/--no-real", help="Also use real images (default: if there are any)."),
    ] = None,
    data: RealImages = None,
    per_class: PerClass = 15,
    sprites: Sprites = None,
    device: Device = "auto",
    output: Output,
    short: Annotated[bool, typer.Option("--short", help="Use only the bundled drawings.")] = False,
) -> None:
    """Measure how often a generated sentence names the object in its region."""
    request = CaptionRequest(decoder=decoder, file=decoder_file)
    request.check(model, Method())
    check_captions(scenes, per_class, sprites)
    folder = None if short else real_folder(real, data)
    output.check(KIND, model, decoder_file, folder, sprites)
    subject = subject_of_name(model, device)
    writer = load_captioner(request, subject.model)
    measure_captions(subject, writer, scenes, per_class, sprites, folder, output, short=short)


def check_captions(scenes: int, per_class: int, sprites: Path | None) -> None:
    """Refuse numbers and a folder that cannot work."""
    for name, value in (("--scenes", scenes), ("--per-class", per_class)):
        if value < 1:
            raise InputError(f"{name} must be at least 1; got {value}.")
    check_sprites(sprites)


def measure_captions(
    subject: ModelUnderTest,
    decoder: CaptionDecoder,
    scenes: int,
    per_class: int,
    sprites: Path | None,
    real: Path | None,
    output: Output,
    *,
    short: bool,
) -> dict[str, Any]:
    """Measure a decoder's sentences, show the tables, return the page."""
    from ...bench.measures.figures_file import FiguresFile
    from ...bench.measures.generated import CaptionsBench, CaptionsPlan

    plan = CaptionsPlan(scenes=scenes, per_class=per_class, sprites=sprites, real=real, short=short)
    settings: dict[str, Any] = plan.settings(subject, decoder)
    record = FiguresFile(output.json, KIND, settings, overwrite=output.overwrite)
    job = CaptionsBench(subject, decoder, plan, record)
    follow(job.run, record.file, record.parts)
    output.show(record.page)
    return record.page
