"""The commands ``bench scenes``, ``steps``, ``alpha`` and ``captions``, and their options."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.cli.bench.shared import (
    DRAWN,
    REPORTS,
    Alpha,
    Device,
    ModelName,
    Output,
    Rate,
    SkipBad,
    Steps,
    bench,
    follow,
    load_measured,
)
from napari_maskinversion.cli.captions import Decoder, DecoderFile
from napari_maskinversion.cli.console import say
from napari_maskinversion.cli.options import setting_option, with_option_groups, with_paper
from napari_maskinversion.cli.running import load_captioner
from napari_maskinversion.engine.methods.registry import Method
from napari_maskinversion.engine.settings import InversionConfig
from napari_maskinversion.pipeline.captions import CaptionRequest

if TYPE_CHECKING:
    from .cases import ModelUnderTest
    from .scenes import SceneBench

REAL_SETS: Final = ("dubai-aerial", "bccd", "dsb2018-nuclei")
SHORT_SCENES: Final = 40
RATE: Final = InversionConfig().learning_rate
NOWHERE: Final = Output()
REPORTS.update(dict.fromkeys(DRAWN, "benchmarks.drawn.reports"))

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


def subject_of_name(model: str, device: str) -> ModelUnderTest:
    """Load a model with the names that it chooses from."""
    from .cases import subject_of

    return subject_of(load_measured(model, device))


def measure(job: SceneBench) -> None:
    """Measure under a progress bar, and show the tables."""
    from .reports import left_out

    for kind in job.unknown:
        say(f"{job.subject.model.name} did not learn the names of kind {kind}; they are left out.")
    try:
        follow(job.run, job.record.file, job.record.parts)
    finally:
        for why in left_out(job.record.page):
            say(f"Left out: {why}")
    job.plan.output.show(job.record.page)


# -- scenes -----------------------------------------------------------------------------------


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
        return (3,) if self.short else _counts(self.objects)

    @property
    def inversion(self) -> InversionConfig:
        """Settings of MaskInversion."""
        return InversionConfig(steps=self.steps, learning_rate=self.learning_rate)

    def check(self, kind: str, *inputs: Path | None) -> None:
        """Raise for what cannot work, before a model is loaded."""
        InversionConfig(steps=self.steps, learning_rate=self.learning_rate)
        _counts(self.objects)
        super().check(kind, *inputs)


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < 1 or counts[-1] > 5:
        raise InputError(f"--objects takes numbers from 1 to 5 such as 3,4,5; got {text!r}.")
    return counts


@bench.command("scenes")
@with_option_groups
def scenes_command(*, plan: ScenesPlan) -> None:
    """Name objects and regions of new scenes and real images by MaskInversion and other methods.

    Each method has the settings that were best on validation scenes (or the validation split of
    real images), never on those that are measured.
    """
    plan.check("scenes")
    from .scenes import ScenesBench

    subject = subject_of_name(plan.model, plan.device)
    subject.resolution(plan.resolution)  # raises
    job = ScenesBench(subject, plan)
    if not plan.short and plan.folder is None:
        say("Without real images: set NAPARI_MASKINVERSION_DATA, or --data, to their folder.")
    measure(job)


# -- captions ---------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CaptionsPlan(RealPlan):
    """What ``bench captions`` measures."""

    scenes: Scenes = 60
    per_class: PerClass = 15


@bench.command("captions")
@with_option_groups
def captions_command(
    *, decoder: Decoder = "demo", decoder_file: DecoderFile = None, plan: CaptionsPlan
) -> None:
    """Measure how often a generated sentence names the object in its region."""
    request = CaptionRequest(decoder=decoder, file=decoder_file)
    request.check(plan.model, Method())
    plan.check("captions", decoder_file)
    from .generated import CaptionsBench

    subject = subject_of_name(plan.model, plan.device)
    measure(CaptionsBench(subject, plan, load_captioner(request, subject.model)))


# -- curves -----------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class CurvePlan(Plan):
    """What the commands for curves measure."""

    objects: Annotated[int, typer.Option(help="Objects in a scene.")] = 3
    resolution: Annotated[int | None, setting_option("resolution")] = None


@bench.command("steps")
@with_paper(without=("steps",))
@with_option_groups
def steps_command(
    *,
    steps: Annotated[int, typer.Option(help="Last step of the curve.")] = 30,
    learning_rate: Rate = RATE,
    alpha: Alpha = 0.0,
    plan: CurvePlan,
) -> None:
    """Measure accuracy, heatmap overlap and loss after every step of the inversion."""
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate, alpha=alpha)
    _curve("steps", [float(step) for step in range(steps + 1)], inversion, plan)


@bench.command("alpha")
@with_paper()
@with_option_groups
def alpha_command(
    *,
    steps: Steps = 10,
    learning_rate: Rate = RATE,
    alphas: Annotated[
        str, typer.Option(help="Weights of the regulariser, separated by commas.")
    ] = "0,0.25,0.5,1,2,3,5,7.5,10,20,30",
    plan: CurvePlan,
) -> None:
    """Measure accuracy and heatmap overlap for several values of alpha."""
    try:
        values = [float(alpha) for alpha in alphas.split(",")]
    except ValueError:
        raise InputError(f"--alphas takes numbers such as 0,1,5; got {alphas!r}.") from None
    for value in values:
        InversionConfig(alpha=value)  # raises for values that cannot be weights
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate)
    _curve("alpha", values, inversion, plan)


def _curve(kind: str, values: list[float], inversion: InversionConfig, plan: CurvePlan) -> None:
    _counts(str(plan.objects))
    plan.check(kind)
    from .curves import CurveBench

    subject = subject_of_name(plan.model, plan.device)
    measure(CurveBench(subject, plan, kind, values, inversion))
