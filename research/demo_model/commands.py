"""The commands ``rebuild-demo`` and ``rebuild-demo-captions``: train, measure, write the card."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Final

import typer

from benchmarks.drawn.commands import measure, subject_of_name
from benchmarks.drawn.plans import (
    CaptionsPlan,
    PerClass,
    RealImages,
    Scenes,
    ScenesPlan,
    Sprites,
)
from napari_maskinversion.base.errors import ConfigError, InputError
from napari_maskinversion.cli.app import app
from napari_maskinversion.cli.bench.shared import Device, ModelName, Output
from napari_maskinversion.cli.console import ProgressBar, echo, say
from napari_maskinversion.cli.run_options import load
from napari_maskinversion.results.settings import RunSettings

if TYPE_CHECKING:
    from benchmarks.drawn.cases import ModelUnderTest
    from napari_maskinversion.demo_model.scene_words import Name
    from napari_maskinversion.language.generation.small_gpt import SmallDecoder

    from .captions import CaptionRecipe
    from .recipe import Recipe
    from .train import Trainer


STRANGER_STEP: Final = 4  # of the drawings without a name, every fourth is shown in training
CAPTION_CARD: Final = "CARD.md"


@app.command("rebuild-demo")
def rebuild_command(
    out: Annotated[Path, typer.Argument(help="Folder for the model and its card.")],
    budget: Annotated[
        float, typer.Option(help="Minutes of training; on a CPU its own time.")
    ] = 90.0,
    objects: Annotated[
        int | None,
        typer.Option(help="Number of drawn objects to learn (default: those chosen by rule)."),
    ] = None,
    warm: Annotated[
        Path | None,
        typer.Option(help="Folder of an earlier model with the same names to continue from."),
    ] = None,
    learning_rate: Annotated[
        float,
        typer.Option(help="Highest learning rate; use a lower one to continue an earlier model."),
    ] = 1.5e-3,
    photographs: Annotated[
        Path | None,
        typer.Option(help="Folder of photographs (.jpg, .png): more backgrounds for drawings."),
    ] = None,
    sprites: Sprites = None,
    data: RealImages = None,
    scenes: Scenes = 200,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(help="Seed of all random numbers.")] = 0,
) -> None:
    """Train the bundled model again, measure it, and write its card.

    Minutes on a large GPU (--device cuda) do more than hours on a CPU.

    Downloads the drawings. Aerial and microscopy names are learned from the folder of real images.
    A stopped run in the same folder continues. The folder can then be used as a model.
    """
    from benchmarks.drawn.sprites import SpriteError
    from napari_maskinversion.demo_model.domains import data_folder
    from napari_maskinversion.demo_model.scene_words import CHOSEN, DRAWN, taught
    from napari_maskinversion.engine.compute.devices import choose_device

    from .recipe import ON_GPU, WARM, Recipe
    from .train import train

    objects = len(CHOSEN) if objects is None else objects
    if not budget > 0:
        raise ConfigError(f"--budget must be more than 0 minutes; got {budget}.")
    if not 2 <= objects <= len(DRAWN):
        raise ConfigError(f"--objects must be 2 to {len(DRAWN)}; got {objects}.")
    if not 0 < learning_rate < 1:
        raise ConfigError(f"--learning-rate must be between 0 and 1; got {learning_rate}.")
    named = {"--warm": warm, "--photographs": photographs, "--sprites": sprites, "--data": data}
    for option, folder in named.items():
        if folder is not None and not folder.is_dir():
            raise InputError(f"There is no folder {folder}; {option} names a folder.")
    if warm is not None and out.absolute() == warm.absolute():
        raise InputError(f"--warm {warm} is the folder to be written; choose another one.")
    if out.is_dir() and any(out.iterdir()) and not (out / "recipe.json").is_file():
        raise InputError(f"{out} holds files that are not of a model in training; choose another.")
    chosen = str(choose_device(device))
    recipe = Recipe(
        minutes=budget,
        seed=seed,
        objects=objects,
        learning_rate=learning_rate,
        text_steps=int(min(Recipe().text_steps, 120 * budget)),
        photographs=_photographs_in(photographs),
        warm=warm is not None,
    )
    usual = (WARM if recipe.warm else {}) | (ON_GPU if "cuda" in chosen else {})
    recipe = replace(recipe, **usual)
    real = data or data_folder()
    if real is None:
        say("There is no folder of real images; the model learns drawings only.")
    names = taught(objects) if real is not None else taught(objects)[:objects]
    if warm is not None and _names_in(warm) != [name.name for name in names]:
        raise InputError(
            f"The model in {warm} does not know the same {len(names)} names in the same order; "
            "leave --warm out, or choose another model."
        )
    try:
        trainer = _trainer(recipe, names, sprites, real, chosen)
    except SpriteError as error:
        raise InputError(str(error)) from None
    train(trainer, out, warm=warm)
    _write_card(out, trainer)
    _measure(out, sprites, real, scenes)
    say(f"Wrote the model and its card to {out}; use it with --model {out}.")


def _photographs_in(folder: Path | None) -> tuple[str, ...]:
    """Return the photographs of a folder; one without any is refused."""
    if folder is None:
        return ()
    files = sorted(f for f in folder.absolute().iterdir() if f.suffix.lower() in (".jpg", ".png"))
    if not files:
        raise InputError(f"{folder} contains no photograph (.jpg, .png).")
    return tuple(map(str, files))


def _names_in(folder: Path) -> list[str]:
    """Return what the model in a folder knows; empty if nothing says it."""
    from napari_maskinversion.demo_model.scene_words import VOCABULARY_FILE

    listed = folder / VOCABULARY_FILE
    return listed.read_text("utf-8").splitlines() if listed.is_file() else []


def _trainer(
    recipe: Recipe,
    names: Sequence[Name],
    sprites: Path | None,
    real: Path | None,
    device: str,
) -> Trainer:
    from napari_maskinversion.demo_model.domains import load
    from napari_maskinversion.demo_model.scene_words import CANDIDATES, CHOSEN, DRAWN
    from napari_maskinversion.demo_model.scenes import pyramid

    from .painted import painted_pictures
    from .pictograms import load_drawings
    from .train import Trainer
    from .views import WEIGHTS, Views

    # A trial of few names needs none.
    strangers = DRAWN[CANDIDATES::STRANGER_STEP] if recipe.objects >= len(CHOSEN) else ()
    drawn = (*DRAWN[: recipe.objects], *strangers)
    levels = pyramid(load_drawings(sprites, size=128, names=drawn), levels=4)
    if real is None:
        return Trainer(recipe, levels, names, None, device)
    shown = Views(load(real, "train"), recipe.objects, painted_pictures(), weights=WEIGHTS)
    looked_at = Views(load(real, "validation"), recipe.objects)
    workers = max(1, (os.cpu_count() or 1) - 3) if "cuda" in device else 0
    return Trainer(recipe, levels, names, shown, device, looked_at, workers)


def _write_card(out: Path, trainer: Trainer) -> None:
    import torch

    from napari_maskinversion.base.atomic_files import write_whole
    from napari_maskinversion.bench.measures.figures_file import typed_command

    from .card import CARD, model_card, told

    cores = os.cpu_count() or 1
    place = f"{cores} CPU core{'s' * (cores != 1)}"
    if trainer.cuda:
        place = torch.cuda.get_device_name(trainer.device)
    training = told(trainer.recipe, trainer.step, trainer.seconds / 60, place)
    card = model_card(out, typed_command(), training, trainer.recipe, trainer.names)
    write_whole(out / CARD, card.encode())


def _measure(out: Path, sprites: Path | None, real: Path | None, scenes: int) -> None:
    """Measure as ``bench scenes`` does, and put the tables into the card."""
    from benchmarks.drawn.cases import subject_of
    from benchmarks.drawn.reports import markdown, write_into
    from benchmarks.drawn.scenes import ScenesBench

    from .card import CARD

    say("Measuring ...")
    plan = ScenesPlan(
        scenes=scenes,
        per_class=min(100, scenes),
        sprites=sprites,
        data=real,
        validation=min(ScenesPlan.validation, scenes),
        output=Output(json=out / "scenes.json", overwrite=True),
    )
    job = ScenesBench(subject_of(load(RunSettings(model=str(out), device="cpu"))), plan)
    job.run()
    text = markdown(job.record.page)
    write_into(out / CARD, "scenes", text)
    echo(text)


@app.command("rebuild-demo-captions")
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
    from benchmarks.drawn.generated import CaptionsBench
    from benchmarks.drawn.reports import markdown, write_into
    from napari_maskinversion.engine.models.specs import DEMO, bundled_folder
    from napari_maskinversion.language.generation.registry import BUNDLED_FILE

    from .captions import CaptionRecipe

    recipe = CaptionRecipe(seed=seed) if steps is None else CaptionRecipe(seed=seed, steps=steps)
    if recipe.steps < 20 or not 0 <= seed < 2**32:
        raise InputError(
            f"--steps must be at least 20 and --seed 0 to {2**32 - 1}; got {recipe.steps}, {seed}."
        )
    if out is None:
        base = bundled_folder() if model == DEMO else Path(model)
        out = base / Path(BUNDLED_FILE).parent
    plan = CaptionsPlan(
        model=model,
        scenes=scenes,
        per_class=per_class,
        sprites=sprites,
        data=data,
        short=short,
        output=Output(json=json or out / "captions.json", overwrite=True),
    )
    plan.check("captions")
    subject = subject_of_name(model, "cpu")
    if not subject.taught:
        raise InputError(
            f"{model} has no vocabulary.txt beside its weights; name a model of rebuild-demo."
        )
    file = out / Path(BUNDLED_FILE).name
    writer = _train_captions(subject, recipe, file)
    _write_caption_card(out / CAPTION_CARD, writer, recipe, subject)
    job = CaptionsBench(subject, plan, writer)
    measure(job)
    write_into(out / CAPTION_CARD, "captions", markdown(job.record.page))
    say(f"Wrote the decoder, its card and its figures to {out}.")


def _train_captions(subject: ModelUnderTest, recipe: CaptionRecipe, file: Path) -> SmallDecoder:
    from napari_maskinversion.language.generation.small_gpt import (
        load_small_decoder,
        save_small_decoder,
    )

    from .captions import train_captions

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


def _write_caption_card(
    card: Path, decoder: SmallDecoder, recipe: CaptionRecipe, subject: ModelUnderTest
) -> None:
    from napari_maskinversion.base.atomic_files import write_whole
    from napari_maskinversion.bench.measures.figures_file import typed_command

    record = decoder.record
    template = Path(__file__).with_name("captions_template.md")
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
