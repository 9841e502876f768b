"""The commands ``bench scenes``, ``steps``, ``alpha`` and ``captions``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.cli.bench.shared import (
    DRAWN,
    REPORTS,
    Alpha,
    Rate,
    Steps,
    bench,
    follow,
    load_measured,
)
from napari_maskinversion.cli.captions import Decoder, DecoderFile
from napari_maskinversion.cli.console import say
from napari_maskinversion.cli.options import with_option_groups, with_paper
from napari_maskinversion.cli.run_options import load_captioner
from napari_maskinversion.engine.methods.registry import Method
from napari_maskinversion.engine.settings import InversionConfig
from napari_maskinversion.pipeline.caption_ranking import CaptionRequest

from .plans import RATE, CaptionsPlan, CurvePlan, ScenesPlan, object_counts

if TYPE_CHECKING:
    from .cases import ModelUnderTest
    from .scenes import SceneBench

REPORTS.update(dict.fromkeys(DRAWN, "benchmarks.drawn.reports"))


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
    object_counts(str(plan.objects))
    plan.check(kind)
    from .curves import CurveBench

    subject = subject_of_name(plan.model, plan.device)
    measure(CurveBench(subject, plan, kind, values, inversion))
