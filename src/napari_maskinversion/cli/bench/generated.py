"""The commands ``bench captions`` and ``rebuild-demo-captions``."""

from __future__ import annotations

import time
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...base.errors import InputError
from ...base.record_store import records_path
from ...engine.methods.registry import Method
from ...pipeline.captions.generating import CaptionRequest
from ..captions.generate import Decoder, DecoderFile
from ..console import ProgressBar, say
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
    from ...demo_model.captions.training import CaptionRecipe
    from ...language.generation.decoder import CaptionDecoder
    from ...language.generation.small_gpt import SmallDecoder

KIND: Final = "captions"
CARD: Final = "CARD.md"
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
    _check(scenes, per_class, sprites)
    folder = None if short else real_folder(real, data)
    output.check(KIND, model, decoder_file, folder, sprites)
    subject = subject_of_name(model, device)
    writer = load_captioner(request, subject.model)
    _measure(subject, writer, scenes, per_class, sprites, folder, output, short=short)


def rebuild_captions_command(
    out: Annotated[
        Path | None,
        typer.Argument(help="Folder for the decoder and its card (default: beside the model)."),
    ] = None,
    model: ModelName = "demo",
    scenes: Scenes = 60,
    data: RealImages = None,
    per_class: PerClass = 15,
    sprites: Sprites = None,
    steps: Annotated[int | None, typer.Option(help="Training steps (default: usual).")] = None,
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
    json: Annotated[
        Path | None, typer.Option("--json", help="File for the figures (default: in the folder).")
    ] = None,
    short: Annotated[bool, typer.Option("--short", help="Use only the bundled drawings.")] = False,
) -> None:
    """Train the caption decoder of a demo model again, on text alone, and measure it.

    Needed whenever the model's weights change: a decoder of other weights is refused. Some minutes
    on one core.
    """
    from ...bench.reports.tables import markdown, write_into
    from ...demo_model.captions.training import CaptionRecipe
    from ...engine.models.specs import DEMO, bundled_folder
    from ...language.generation.registry import BUNDLED_FILE

    _check(scenes, per_class, sprites)
    recipe = CaptionRecipe(seed=seed) if steps is None else CaptionRecipe(seed=seed, steps=steps)
    if recipe.steps < 20 or not 0 <= seed < 2**32:
        raise InputError(
            f"--steps must be at least 20 and --seed 0 to {2**32 - 1}; got {recipe.steps}, {seed}."
        )
    folder = None if short else real_folder(None, data)
    if out is None:
        base = bundled_folder() if model == DEMO else Path(model)
        out = base / Path(BUNDLED_FILE).parent
    figures = Output(json=json or out / "captions.json", overwrite=True)
    figures.check(KIND, model, folder, sprites)
    subject = subject_of_name(model, "cpu")
    if not subject.taught:
        raise InputError(
            f"{model} has no vocabulary.txt beside its weights; name a model of rebuild-demo."
        )
    file = out / Path(BUNDLED_FILE).name
    writer = _train(subject, recipe, file)
    _write_card(out / CARD, writer, recipe, subject)
    page = _measure(subject, writer, scenes, per_class, sprites, folder, figures, short=short)
    write_into(out / CARD, KIND, markdown(page))
    if figures.json is not None:  # complete: nothing is left to be continued
        records_path(figures.json).unlink(missing_ok=True)
    say(f"Wrote the decoder, its card and its figures to {out}.")


def _check(scenes: int, per_class: int, sprites: Path | None) -> None:
    for name, value in (("--scenes", scenes), ("--per-class", per_class)):
        if value < 1:
            raise InputError(f"{name} must be at least 1; got {value}.")
    check_sprites(sprites)


def _train(subject: ModelUnderTest, recipe: CaptionRecipe, file: Path) -> SmallDecoder:
    from ...demo_model.captions.training import train_captions
    from ...language.generation.small_gpt import load_small_decoder, save_small_decoder

    began = time.perf_counter()
    with ProgressBar(remaining=True) as bar:
        bar.show("Embedding sentences")
        trained = train_captions(
            subject.model,
            subject.names,
            recipe,
            lambda step, loss: bar.show(f"Training, loss {loss:.3f}", step, recipe.steps),
        )
    save_small_decoder(file, *trained)
    say(f"Trained in {time.perf_counter() - began:.0f} s.")
    return load_small_decoder(file, name="demo")


def _write_card(
    card: Path, decoder: SmallDecoder, recipe: CaptionRecipe, subject: ModelUnderTest
) -> None:
    from importlib.resources import files

    from ...base.atomic_files import write_whole
    from ...bench.measures.figures_file import typed_command

    record = decoder.record
    template = files("napari_maskinversion.demo_model.captions").joinpath("card_template.md")
    text = Template(template.read_text("utf-8")).substitute(
        model=record.model,
        fingerprint=record.fingerprint,
        layers=record.layers,
        width=record.width,
        heads=record.heads,
        parameters=f"{sum(p.numel() for p in decoder.gpt.parameters()):,}",
        words=len(record.words),
        memory=len(decoder.memory.vectors),
        sharpness=f"{record.sharpness:g}",
        kilobytes=round(card.with_name("decap.safetensors").stat().st_size / 1000),
        names=len(subject.names),
        command=typed_command(),
        steps=recipe.steps,
        batch=recipe.batch,
        seed=recipe.seed,
    )
    write_whole(card, text.encode())


def _measure(
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
    from ...bench.measures.figures_file import FiguresFile
    from ...bench.measures.generated import CaptionsBench, CaptionsPlan

    plan = CaptionsPlan(scenes=scenes, per_class=per_class, sprites=sprites, real=real, short=short)
    settings: dict[str, Any] = plan.settings(subject, decoder)
    record = FiguresFile(output.json, KIND, settings, overwrite=output.overwrite)
    job = CaptionsBench(subject, decoder, plan, record)
    follow(job.run, record.file, record.parts)
    output.show(record.page)
    return record.page
