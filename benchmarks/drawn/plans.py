"""What the commands measure: their options, as plans that are checked before a model is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Final

import typer

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.cli.bench.shared import Device, ModelName, Output, Rate, SkipBad, Steps
from napari_maskinversion.cli.options import setting_option
from napari_maskinversion.engine.settings import InversionConfig

REAL_SETS: Final = ("dubai-aerial", "bccd", "dsb2018-nuclei")
SHORT_SCENES: Final = 40
RATE: Final = InversionConfig().learning_rate
NOWHERE: Final = Output()

Scenes = Annotated[
    int, typer.Option(min=1, help="Scenes of each kind; five times as many of a single object.")
]
Sprites = Annotated[
    Path | None,
    typer.Option(
        help="A node_modules folder with the emoji sets (default: NAPARI_MASKINVERSION_SPRITES, "
        "then the cache folder, fetched with npm)."
    ),
]
RealImages = Annotated[
    Path | None,
    typer.Option(help="Folder of the real images (default: NAPARI_MASKINVERSION_DATA)."),
]
PerClass = Annotated[int, typer.Option(min=1, help="Most real regions of a class.")]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What every command measures."""

    model: ModelName = "demo"
    scenes: Scenes = 200
    sprites: Sprites = None
    short: Annotated[
        bool, typer.Option("--short", help="Use only the bundled drawings, offline.")
    ] = False
    device: Device = "auto"
    output: Output = NOWHERE

    @property
    def count(self) -> int:
        """Scenes of each kind."""
        return min(self.scenes, SHORT_SCENES) if self.short else self.scenes

    def check(self, kind: str, *inputs: Path | None) -> None:
        """Raise for what cannot work, before a model is loaded."""
        if self.sprites is not None and not self.sprites.is_dir():
            raise InputError(
                f"There is no folder {self.sprites}; --sprites names a node_modules folder."
            )
        self.output.check(kind, self.model, self.sprites, *inputs)


@dataclass(frozen=True, kw_only=True)
class RealPlan(Plan):
    """What a command measures that can show real images, too."""

    per_class: PerClass = 100
    real: Annotated[
        bool | None,
        typer.Option("--real/--no-real", help="Also use real images (default: if there are any)."),
    ] = None
    data: RealImages = None

    @cached_property
    def folder(self) -> Path | None:
        """The folder of the real images; None if there is none, or it is not wanted."""
        if self.short or self.real is False:
            return None
        from napari_maskinversion.demo_model.domains import data_folder

        folder = self.data or data_folder()
        if folder is None and self.real:
            raise InputError(
                "There are no real images: set NAPARI_MASKINVERSION_DATA, or --data, to their "
                "folder."
            )
        names = () if folder is None else REAL_SETS
        if missing := [name for name in names if not Path(folder or "", name, "images").is_dir()]:
            raise InputError(
                f"{folder} has no {', '.join(missing)} with images; --no-real leaves them out."
            )
        return folder

    def check(self, kind: str, *inputs: Path | None) -> None:
        """Raise for what cannot work, before a model is loaded."""
        super().check(kind, self.folder, *inputs)


@dataclass(frozen=True, kw_only=True)
class ScenesPlan(RealPlan):
    """What ``bench scenes`` measures."""

    objects: Annotated[str, typer.Option(help="Objects in a scene, separated by commas.")] = "3,4,5"
    steps: Steps = 10
    learning_rate: Rate = RATE
    resolution: Annotated[
        int | None,
        typer.Option(
            help="Side of MaskInversion's input in pixels (default: chosen on other scenes)."
        ),
    ] = None
    skip_bad: SkipBad = False
    validation: Annotated[int, typer.Option(hidden=True)] = 40  # scenes for choosing settings

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of objects in the scenes with several."""
        return (3,) if self.short else object_counts(self.objects)

    @property
    def inversion(self) -> InversionConfig:
        """Settings of MaskInversion."""
        return InversionConfig(steps=self.steps, learning_rate=self.learning_rate)

    def check(self, kind: str, *inputs: Path | None) -> None:
        """Raise for what cannot work, before a model is loaded."""
        InversionConfig(steps=self.steps, learning_rate=self.learning_rate)
        object_counts(self.objects)
        super().check(kind, *inputs)


def object_counts(text: str) -> tuple[int, ...]:
    """Read numbers of objects in a scene, such as "3,4,5"."""
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < 1 or counts[-1] > 5:
        raise InputError(f"--objects takes numbers from 1 to 5 such as 3,4,5; got {text!r}.")
    return counts


@dataclass(frozen=True, kw_only=True)
class CaptionsPlan(RealPlan):
    """What ``bench captions`` measures."""

    scenes: Scenes = 60
    per_class: PerClass = 15


@dataclass(frozen=True, kw_only=True)
class CurvePlan(Plan):
    """What the commands for curves measure."""

    objects: Annotated[int, typer.Option(help="Objects in a scene.")] = 3
    resolution: Annotated[int | None, setting_option("resolution")] = None
