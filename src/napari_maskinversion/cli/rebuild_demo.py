"""The command ``rebuild-demo``: train the bundled model, measure it, write its card."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..base.errors import ConfigError, InputError
from .bench.scenes import Device, RealImages, Scenes, Sprites
from .console import echo, say
from .loading import load

if TYPE_CHECKING:
    from ..demo_model.recipe import Recipe
    from ..demo_model.train import Trainer
    from ..demo_model.vocabulary import Name


STRANGER_STEP: Final = 4  # of the drawings without a name, every fourth is shown in training


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

    Downloads the drawings. Aerial and microscopy names are learned from the folder of real images.
    A stopped run in the same folder continues. The folder can then be used as a model.
    """
    from ..demo_model.domains import data_folder
    from ..demo_model.recipe import Recipe
    from ..demo_model.sprites import SpriteError
    from ..demo_model.train import train
    from ..demo_model.vocabulary import CHOSEN, DRAWN, taught
    from ..engine.compute.devices import choose_device

    objects = len(CHOSEN) if objects is None else objects
    if not budget > 0:
        raise ConfigError(f"--budget must be more than 0 minutes; got {budget}.")
    if not 2 <= objects <= len(DRAWN):
        raise ConfigError(f"--objects must be 2 to {len(DRAWN)}; got {objects}.")
    if not 0 < learning_rate < 1:
        raise ConfigError(f"--learning-rate must be between 0 and 1; got {learning_rate}.")
    if scenes < 1:
        raise ConfigError(f"--scenes must be at least 1; got {scenes}.")
    named = {"--warm": warm, "--photographs": photographs, "--sprites": sprites, "--data": data}
    for option, folder in named.items():
        if folder is not None and not folder.is_dir():
            raise InputError(f"There is no folder {folder}; {option} names a folder.")
    if warm is not None and out.absolute() == warm.absolute():
        raise InputError(f"--warm {warm} is the folder to be written; choose another one.")
    if out.is_dir() and any(out.iterdir()) and not (out / "recipe.json").is_file():
        raise InputError(
            f"{out} contains files that are not of a model in training; choose a new folder."
        )
    recipe = Recipe(
        minutes=budget,
        seed=seed,
        objects=objects,
        learning_rate=learning_rate,
        warm=warm is not None,
        warmup=Recipe().warmup if warm is None else 50,
        steady=Recipe().steady if warm is None else 0.0,
        text_steps=int(min(Recipe().text_steps, 120 * budget)),
        photographs=_photographs_in(photographs),
    )
    real = data or data_folder()
    if real is None:
        say("There is no folder of real images; the model learns drawings only.")
    names = taught(objects) if real is not None else taught(objects)[:objects]
    if warm is not None and _names_in(warm) != [name.name for name in names]:
        raise InputError(
            f"The model in {warm} does not know the same {len(names)} names in the same order; "
            "leave --warm out, or choose another model."
        )
    chosen = str(choose_device(device))
    try:
        trainer = _trainer(recipe, names, sprites, real, chosen)
    except SpriteError as error:
        raise InputError(str(error)) from None
    train(trainer, out, warm=warm)
    _write_card(out, trainer, chosen)
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
    from ..demo_model.model import VOCABULARY_FILE

    listed = folder / VOCABULARY_FILE
    return listed.read_text("utf-8").splitlines() if listed.is_file() else []


def _trainer(
    recipe: Recipe,
    names: Sequence[Name],
    sprites: Path | None,
    real: Path | None,
    device: str,
) -> Trainer:
    from ..demo_model.domains import Views, load
    from ..demo_model.painted_pictures import painted_pictures
    from ..demo_model.scenes import pyramid
    from ..demo_model.sprites import DRAWN_IN, load_sprites
    from ..demo_model.train import Trainer
    from ..demo_model.vocabulary import CANDIDATES, CHOSEN, DRAWN

    # A trial of few names needs none.
    strangers = DRAWN[CANDIDATES::STRANGER_STEP] if recipe.objects >= len(CHOSEN) else ()
    drawn = (*DRAWN[: recipe.objects], *strangers)
    drawings = load_sprites(sprites, size=128, names=drawn, styles=DRAWN_IN)
    levels = pyramid(drawings, levels=4)
    if real is None:
        return Trainer(recipe, levels, names, None, device)
    shown = Views(load(real, "train"), recipe.objects, painted_pictures())
    looked_at = Views(load(real, "validation"), recipe.objects)
    return Trainer(recipe, levels, names, shown, device, looked_at)


def _write_card(out: Path, trainer: Trainer, device: str) -> None:
    import torch

    from ..base.atomic_files import write_whole
    from ..bench.measures.figures_file import typed_command
    from ..demo_model.card import CARD, Training, model_card

    cores = os.cpu_count() or 1
    place = f"{cores} CPU core{'s' * (cores != 1)}"
    if device.startswith("cuda"):
        place = torch.cuda.get_device_name(device)
    real = sum(not name.icons for name in trainer.names)
    training = Training(
        command=typed_command(),
        recipe=trainer.recipe,
        steps=trainer.step,
        minutes=trainer.seconds / 60,
        hardware=place,
        drawn=len(trainer.names) - real,
        real=real,
    )
    write_whole(out / CARD, model_card(training, out).encode())


def _measure(out: Path, sprites: Path | None, real: Path | None, scenes: int) -> None:
    """Measure as ``bench scenes`` does, and put the tables into the card."""
    from ..bench.measures.figures_file import FiguresFile
    from ..bench.measures.scenes import VALIDATION_SCENES, ScenesBench, ScenesPlan
    from ..bench.model_under_test import subject_of
    from ..bench.reports.tables import markdown, write_into
    from ..demo_model.card import CARD
    from ..engine.settings import InversionConfig

    say("Measuring ...")
    subject = subject_of(load(str(out), None, "cpu"))
    plan = ScenesPlan(
        scenes=scenes,
        objects=(3, 4, 5),
        inversion=InversionConfig(),
        resolution=None,
        per_class=min(100, scenes),
        sprites=sprites,
        real=real,
        short=False,
        validation=min(VALIDATION_SCENES, scenes),
    )
    record = FiguresFile(out / "scenes.json", "scenes", plan.settings(subject), overwrite=True)
    ScenesBench(subject, plan, record).run()
    text = markdown(record.page)
    write_into(out / CARD, "scenes", text)
    echo(text)
