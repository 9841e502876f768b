"""Make the demo model anew: ``python -m napari_maskinversion.demo.rebuild --budget 90 --out DIR``.

Fetches the drawings, trains, measures on scenes and images that nobody trained on, and writes the
model card: DIR then holds what the package carries. Stopped and started again it goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from .card import CARD, Training, model_card
from .domains import Views, data_folder, load
from .model import write_whole
from .recipe import Recipe
from .scenes import pyramid
from .sprites import SEEN_STYLES, UNSEEN_STYLE, SpriteError, load_sprites
from .train import Trainer, train
from .vocabulary import OBJECTS, taught


def make_trainer(recipe: Recipe, sprites: Path | None, device: str) -> Trainer:
    """Load drawings and real images, and set up the training.

    Raises
    ------
    SpriteError
        If the drawings cannot be had.
    """
    names = taught(recipe.objects)
    styles = (*SEEN_STYLES, UNSEEN_STYLE)
    drawings = load_sprites(sprites, size=128, names=OBJECTS[: recipe.objects], styles=styles)
    folder = data_folder()
    if folder is None:
        print("No folder with real images is named; the model learns drawings alone.")
        names, real = names[: recipe.objects], None
    else:
        real = Views(load(folder, "train"), recipe.objects)
    return Trainer(recipe, pyramid(drawings, levels=4), names, real, device)


def hardware(device: str) -> str:
    """Name what a training ran on."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    count = os.cpu_count() or 1
    return f"{count} CPU core{'s' * (count != 1)}"


def write_card(out: Path, trainer: Trainer, scores: str, *, command: str, place: str) -> None:
    """Write the card of a finished training beside its weights."""
    real = sum(not name.icons for name in trainer.names)
    training = Training(
        command=command,
        recipe=trainer.recipe,
        steps=trainer.step,
        minutes=trainer.seconds / 60,
        hardware=place,
        drawn=len(trainer.names) - real,
        real=real,
    )
    write_whole(out / CARD, model_card(training, scores, out).encode())


def main(arguments: Sequence[str] | None = None) -> None:
    """Command line."""
    usual = Recipe()
    parser = argparse.ArgumentParser(description="Train the bundled demo model and measure it.")
    parser.add_argument("--budget", type=float, default=90.0, help="minutes of training (90)")
    parser.add_argument("--out", type=Path, required=True, help="folder for everything made")
    parser.add_argument(
        "--sprites", type=Path, help="an existing node_modules folder with the emoji sets"
    )
    parser.add_argument(
        "--objects",
        type=int,
        default=usual.objects,
        help=f"drawn objects to learn, up to {len(OBJECTS)} ({usual.objects})",
    )
    parser.add_argument("--warm", type=Path, help="folder of an earlier model to start from")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenes", type=int, default=200, help="scenes of each kind to measure on")
    given = parser.parse_args(arguments)
    if given.budget <= 0:
        parser.error(f"--budget must be more than 0 minutes; got {given.budget}")
    if not 2 <= given.objects <= len(OBJECTS):
        parser.error(f"--objects must be 2 to {len(OBJECTS)}; got {given.objects}")
    recipe = Recipe(
        minutes=given.budget,
        seed=given.seed,
        objects=given.objects,
        warm=given.warm is not None,
        text_steps=int(min(usual.text_steps, 120 * given.budget)),
    )
    try:
        trainer = make_trainer(recipe, given.sprites, given.device)
    except SpriteError as error:
        parser.exit(2, f"{error}\n")
    train(trainer, given.out, warm=given.warm)
    # BENCH


if __name__ == "__main__":
    main()
