"""The model card, written next to the weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Final

from napari_maskinversion.base.atomic_files import write_whole
from napari_maskinversion.demo_model.sprites import UNSEEN_STYLE

from .model import MODEL_CONFIG, WEIGHTS_FILE
from .pictograms import EVERY_SET
from .recipe import Recipe

CARD: Final = "MODEL_CARD.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How the weights were trained."""

    command: str  # repeats the training
    recipe: Recipe
    steps: int
    minutes: float
    hardware: str  # "2 CPU cores", for instance
    drawn: int  # names with drawings
    real: int  # names with real regions

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

    def card(self, megabytes: float) -> str:
        """Return the card of a model of this size; scores are inserted between its marks later."""
        vision = MODEL_CONFIG["vision_cfg"]
        rows = ["| set | npm package | author | licence | use |", "|---|---|---|---|---|"]
        rows += [
            f"| [{s.style}]({s.source}) | {s.package} {s.version} | {s.author} | {s.licence} "
            f"| {'measuring only' if s.style == UNSEEN_STYLE else 'training'} |"
            for s in EVERY_SET
        ]
        return Template(Path(__file__).with_name("card_template.md").read_text("utf-8")).substitute(
            drawn=self.drawn,
            real=self.real,
            names=self.drawn + self.real,
            side=vision["image_size"],
            grid=vision["image_size"] // vision["patch_size"],
            megabytes=round(megabytes),
            sets="\n".join(rows),
            number=len(EVERY_SET),
            command=self.command,
            training=self.told,
            small=self.recipe.small,
            large=self.recipe.large,
            steps=self.recipe.inversion.steps,
        )


def write_card(training: Training, folder: Path) -> None:
    """Write the card of the model in a folder."""
    megabytes = (folder / WEIGHTS_FILE).stat().st_size / 1e6
    write_whole(folder / CARD, training.card(megabytes).encode())
