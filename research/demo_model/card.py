"""The model card, written next to the weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Final

from benchmarks.drawn.sprites import UNSEEN_STYLE
from napari_maskinversion.demo_model.scene_words import Name

from .model import MODEL_CONFIG, WEIGHTS_FILE
from .pictograms import EVERY_SET
from .recipe import Recipe

CARD: Final = "MODEL_CARD.md"


def told(recipe: Recipe, steps: int, minutes: float, hardware: str) -> str:
    """Return how a model was trained; `hardware` is "2 CPU cores", for instance."""
    rate = "constant then falling" if recipe.steady else "falling"
    start = "The image tower started from an earlier model's. " if recipe.warm else ""
    return (
        f"{steps} steps in {minutes:.0f} minutes on {hardware}, AdamW, {rate} "
        f"rate, averaged weights. {start}The schedule follows the time used, so "
        "another machine takes another number of steps; everything random comes from the seed."
    )


def model_card(
    folder: Path, command: str, training: str, recipe: Recipe, names: Sequence[Name]
) -> str:
    """Return the card of the model in `folder`; scores are inserted between its marks later."""
    vision, real = MODEL_CONFIG["vision_cfg"], sum(not name.icons for name in names)
    rows = ["| set | npm package | author | licence | use |", "|---|---|---|---|---|"]
    rows += [
        f"| [{s.style}]({s.source}) | {s.package} {s.version} | {s.author} | {s.licence} "
        f"| {'measuring only' if s.style == UNSEEN_STYLE else 'training'} |"
        for s in EVERY_SET
    ]
    template = Path(__file__).with_name("card_template.md").read_text("utf-8")
    return Template(template).substitute(
        drawn=len(names) - real,
        real=real,
        names=len(names),
        side=vision["image_size"],
        grid=vision["image_size"] // vision["patch_size"],
        megabytes=round((folder / WEIGHTS_FILE).stat().st_size / 1e6),
        sets="\n".join(rows),
        number=len(EVERY_SET),
        command=command,
        training=training,
        small=recipe.small,
        large=recipe.large,
        steps=recipe.inversion.steps,
    )
