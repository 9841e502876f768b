"""The model card, written next to the weights."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from .model import MODEL_CONFIG, WEIGHTS_FILE
from .recipe import Recipe
from .sprites import EVERY_SET, UNSEEN_STYLE

CARD: Final = "MODEL_CARD.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How the weights were trained.

    Attributes
    ----------
    command : str
        Repeats the training.
    recipe : Recipe
    steps : int
    minutes : float
    hardware : str
        "2 CPU cores", for instance.
    drawn, real : int
        Numbers of names with drawings and with real regions.
    """

    command: str
    recipe: Recipe
    steps: int
    minutes: float
    hardware: str
    drawn: int
    real: int

    @property
    def told(self) -> str:
        """The same in a sentence."""
        rate = "constant then falling" if self.recipe.steady else "falling"
        start = "The image tower started from an earlier model's. " if self.recipe.warm else ""
        return (
            f"{self.steps} steps in {self.minutes:.0f} minutes on {self.hardware}, AdamW, {rate} "
            f"rate, averaged weights. {start}The schedule follows the time used, so "
            "another machine takes another number of steps; everything random comes from the seed."
        )


def model_card(training: Training, folder: Path) -> str:
    """Return the card of the model in `folder`; scores are inserted between its marks later.

    Parameters
    ----------
    training : Training
    folder : Path
        Has the weights, whose size the card states.
    """
    vision = MODEL_CONFIG["vision_cfg"]
    rows = ["| set | npm package | author | licence | use |", "|---|---|---|---|---|"]
    rows += [
        f"| [{s.style}]({s.source}) | {s.package} {s.version} | {s.author} | {s.licence} "
        f"| {'measuring only' if s.style == UNSEEN_STYLE else 'training'} |"
        for s in EVERY_SET
    ]
    template = files(__package__).joinpath("card_template.md").read_text("utf-8")
    return Template(template).substitute(
        drawn=training.drawn,
        real=training.real,
        names=training.drawn + training.real,
        side=vision["image_size"],
        grid=vision["image_size"] // vision["patch_size"],
        megabytes=round((folder / WEIGHTS_FILE).stat().st_size / 1e6),
        sets="\n".join(rows),
        command=training.command,
        training=training.told,
        small=training.recipe.small,
        large=training.recipe.large,
    )
