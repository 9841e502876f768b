"""The command line's ``bench`` commands: measure a model on regions that are known."""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..base import progress_words as words
from ..base.errors import InputError
from ..engine.settings import InversionConfig
from .console import INTERRUPTED, say
from .loading import load
from .options import setting_option
from .progress import ProgressBar

if TYPE_CHECKING:
    from ..bench.model_under_test import ModelUnderTest

SMALL_WIDTH = 256  # of an image tower
REAL_SETS = ("dubai-aerial", "bccd", "dsb2018-nuclei")

bench = typer.Typer(
    help="Measure a model: names and heatmaps of regions that are known.", no_args_is_help=True
)

ModelName = Annotated[str, typer.Option(help="Model name, or a model's folder.")]
Device = Annotated[str, setting_option("device")]
Scenes = Annotated[int, typer.Option(help="Scenes of each kind.")]
Steps = Annotated[int, setting_option("inversion.steps")]
Rate = Annotated[float, setting_option("inversion.learning_rate")]
Alpha = Annotated[float, setting_option("inversion.alpha")]
Resolution = Annotated[int | None, setting_option("resolution")]
Sprites = Annotated[
    Path | None,
    typer.Option(
        help="A node_modules folder with the emoji sets (default: NAPARI_MASKINVERSION_SPRITES, "
        "then the cache folder, fetched with npm)."
    ),
]
Json = Annotated[
    Path | None,
    typer.Option("--json", help="Keep the figures here; a run that was stopped goes on."),
]
Markdown = Annotated[Path | None, typer.Option(help="Write the tables to this file.")]
Into = Annotated[
    list[Path] | None,
    typer.Option(help="Put the tables between this document's marks; may be repeated."),
]
Overwrite = Annotated[bool, typer.Option(help="Measure anew what the JSON file holds.")]
Plots = Annotated[Path | None, typer.Option(help="Folder for the plots as SVG files.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out images that cannot be used, and list them.")
]


@bench.command("scenes")
def scenes_command(
    model: ModelName = "demo",
    scenes: Scenes = 200,
    objects: Annotated[
        str, typer.Option(help="Objects in the scenes whose regions are asked for.")
    ] = "3,4,5",
    real: Annotated[
        bool | None,
        typer.Option("--real/--no-real", help="Real images too (default: where there are any)."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the real images (default: NAPARI_MASKINVERSION_DATA)."),
    ] = None,
    per_class: Annotated[int, typer.Option(help="Real regions of a class, at most.")] = 100,
    sprites: Sprites = None,
    steps: Steps = 10,
    learning_rate: Rate = 0.1,
    resolution: Annotated[
        int | None,
        typer.Option(help="Pixels of MaskInversion's input (default: chosen on other scenes)."),
    ] = None,
    skip_bad: SkipBad = False,
    device: Device = "auto",
    json: Json = None,
    markdown: Markdown = None,
    into: Into = None,
    plots: Plots = None,
    overwrite: Overwrite = False,
    short: Annotated[
        bool,
        typer.Option("--short", help="A minute or less: only drawings that come along, offline."),
    ] = False,
) -> None:
    """Name objects and regions of fresh scenes and of real images, MaskInversion and its rivals.

    Every way to embed a region is used with the setting that was best on validation scenes (or on
    the validation split of real images), never on those that are measured.
    """
    _at_least(1, scenes=scenes, per_class=per_class)
    counts = _counts(objects)
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate)
    folder = None if short else _real_folder(real, data)
    check_places(sprites, json, markdown, into, "scenes")
    from ..bench.measures.figures_file import FiguresFile
    from ..bench.measures.scenes import SHORT_SCENES, ScenesBench, ScenesPlan
    from ..bench.reports.plots import check_plots
    from ..bench.reports.tables import left_out

    if plots is not None:
        check_plots(plots)
    subject = subject_of_name(model, device)
    subject.resolution(resolution)
    plan = ScenesPlan(
        scenes=min(scenes, SHORT_SCENES) if short else scenes,
        objects=(3,) if short else counts,
        inversion=inversion,
        resolution=resolution,
        per_class=per_class,
        sprites=sprites,
        real=folder,
        short=short,
        skip_bad=skip_bad,
    )
    record = FiguresFile(json, "scenes", plan.settings(subject), overwrite=overwrite)
    if not short and folder is None:
        say("Without real images: set NAPARI_MASKINVERSION_DATA, or --data, to the folder of them.")
    job = ScenesBench(subject, plan, record)
    for kind in job.unknown:
        say(f"{subject.model.name} was not taught the names of kind {kind}: not asked.")
    try:
        follow(job.run, record.file, record.parts)
    finally:
        for why in left_out(record.page):
            say(f"Left out: {why}")
    show(record.page, markdown, into, plots)


@bench.command("steps")
def steps_command(
    model: ModelName = "demo",
    scenes: Scenes = 200,
    objects: Annotated[int, typer.Option(help="Objects in a scene.")] = 3,
    steps: Annotated[int, typer.Option(help="Last step of the curve.")] = 30,
    learning_rate: Rate = 0.1,
    alpha: Alpha = 0.0,
    resolution: Resolution = None,
    sprites: Sprites = None,
    device: Device = "auto",
    json: Json = None,
    markdown: Markdown = None,
    into: Into = None,
    plots: Plots = None,
    overwrite: Overwrite = False,
    short: Annotated[bool, typer.Option("--short", help="Only drawings that come along.")] = False,
) -> None:
    """Accuracy, heatmap overlap and loss after every step of the inversion."""
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate, alpha=alpha)
    values = tuple(float(k) for k in range(steps + 1))
    given = (model, scenes, objects, resolution, sprites, device, json, overwrite, short)
    _curve("steps", values, inversion, *given, shown=(markdown, into, plots))


@bench.command("alpha")
def alpha_command(
    model: ModelName = "demo",
    scenes: Scenes = 200,
    objects: Annotated[int, typer.Option(help="Objects in a scene.")] = 3,
    steps: Steps = 10,
    learning_rate: Rate = 0.1,
    alphas: Annotated[
        str, typer.Option(help="Weights of the regulariser, separated by commas.")
    ] = "0,0.25,0.5,1,2,3,5,7.5,10,20,30",
    resolution: Resolution = None,
    sprites: Sprites = None,
    device: Device = "auto",
    json: Json = None,
    markdown: Markdown = None,
    into: Into = None,
    plots: Plots = None,
    overwrite: Overwrite = False,
    short: Annotated[bool, typer.Option("--short", help="Only drawings that come along.")] = False,
) -> None:
    """Accuracy and heatmap overlap by the weight that keeps an embedding near its image's."""
    try:
        values = tuple(float(a) for a in alphas.split(","))
    except ValueError:
        raise InputError(f"--alphas takes numbers such as 0,1,5; got {alphas!r}.") from None
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate)
    for value in values:
        InversionConfig(alpha=value)  # refuses what cannot be a weight, by name
    given = (model, scenes, objects, resolution, sprites, device, json, overwrite, short)
    _curve("alpha", values, inversion, *given, shown=(markdown, into, plots))


@bench.command("show")
def show_command(
    figures: Annotated[Path, typer.Argument(help="JSON file of another bench command.")],
    markdown: Markdown = None,
    into: Into = None,
    plots: Plots = None,
) -> None:
    """Print the tables of kept figures; put them into documents, draw them."""
    from ..bench.measures.figures_file import read_figures

    page = read_figures(figures)
    check_places(None, None, markdown, into, page["kind"])
    show(page, markdown, into, plots, kept=figures)


def _curve(
    kind: str,
    values: tuple[float, ...],
    inversion: InversionConfig,
    model: str,
    scenes: int,
    objects: int,
    resolution: int | None,
    sprites: Path | None,
    device: str,
    json: Path | None,
    overwrite: bool,
    short: bool,
    *,
    shown: tuple[Path | None, list[Path] | None, Path | None],
) -> None:
    _at_least(1, scenes=scenes)
    _counts(str(objects))
    markdown, into, plots = shown
    check_places(sprites, json, markdown, into, kind)
    from ..bench.measures.curves import CurveBench, CurvePlan
    from ..bench.measures.figures_file import FiguresFile
    from ..bench.measures.scenes import SHORT_SCENES
    from ..bench.reports.plots import check_plots

    if plots is not None:
        check_plots(plots)
    subject = subject_of_name(model, device)
    plan = CurvePlan(
        kind=kind,
        values=values,
        inversion=inversion,
        resolution=subject.resolution(resolution),
        scenes=min(scenes, SHORT_SCENES) if short else scenes,
        objects=objects,
        short=short,
    )
    record = FiguresFile(json, kind, plan.settings(subject), overwrite=overwrite)
    follow(CurveBench(subject, plan, record, sprites).run, record.file, record.parts)
    show(record.page, markdown, into, plots)


def subject_of_name(model: str, device: str) -> ModelUnderTest:
    """Load a model with the names that it is asked among."""
    import torch

    from ..bench.model_under_test import subject_of

    subject = subject_of(load(model, None, device))
    if subject.model.embed_dim <= SMALL_WIDTH:
        torch.set_num_threads(1)  # small tensors lose more by threads than they gain
    return subject


def _at_least(least: int, **given: int) -> None:
    for name, value in given.items():
        if value < least:
            raise InputError(f"--{name.replace('_', '-')} must be at least {least}; got {value}.")


def _counts(text: str) -> tuple[int, ...]:
    try:
        counts = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError:
        counts = ()
    if not counts or counts[0] < 1 or counts[-1] > 5:
        raise InputError(f"--objects takes numbers from 1 to 5 such as 3,4,5; got {text!r}.")
    return counts


def _real_folder(wanted: bool | None, given: Path | None) -> Path | None:
    if wanted is False:
        return None
    from ..demo_model.domains import data_folder

    folder = given or data_folder()
    if folder is None and wanted:
        raise InputError(
            "There are no real images: set NAPARI_MASKINVERSION_DATA, or --data, to their folder."
        )
    missing = [n for n in REAL_SETS if folder is not None and not (folder / n / "images").is_dir()]
    if missing:
        raise InputError(f"{folder} has no {', '.join(missing)} with images; or say --no-real.")
    return folder


def check_places(
    sprites: Path | None,
    json: Path | None,
    markdown: Path | None,
    into: list[Path] | None,
    kind: str,
) -> None:
    """Refuse files that cannot be read or written, and documents without marks, before the work."""
    from ..bench.reports.tables import around
    from ..results.export.targets import check_folder

    if sprites is not None and not sprites.is_dir():
        raise InputError(f"There is no folder {sprites}; --sprites names a node_modules folder.")
    for file in (json, markdown):
        if file is not None:
            if file.is_dir():
                raise InputError(f"{file} is a folder; name a file.")
            check_folder(file.parent, [], overwrite=True)
    for document in into or []:
        if not document.is_file():
            raise InputError(f"There is no document {document}.")
        around(document, kind)


def follow(
    run: Callable[[Callable[[str, float], None]], None], file: Path | None, finished: Sized
) -> None:
    """Run under a progress bar; Ctrl-C keeps the parts that are finished."""
    with ProgressBar(remaining=True) as bar:
        bar.show(words.STARTING)
        try:
            run(bar.show)
        except KeyboardInterrupt:
            where = "nothing is kept (--json FILE would)"
            if file is not None:
                where = f"{len(finished)} finished parts are in {file}; run it again"
            say(f"Stopped: {where}.")
            raise typer.Exit(INTERRUPTED) from None


def show(
    page: dict[str, Any],
    markdown: Path | None,
    into: list[Path] | None,
    plots: Path | None = None,
    kept: Path | None = None,
) -> None:
    """Print the tables of figures, of a file `kept` before; put them into documents, draw them."""
    from ..base.atomic_files import atomic_path
    from ..bench.measures.figures_file import complete_figures
    from ..bench.reports.tables import markdown as lay_out
    from ..bench.reports.tables import picture, write_into

    with complete_figures(kept):
        text = lay_out(page)
    typer.echo(text)
    if markdown is not None:
        markdown.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(markdown) as part:
            part.write_text(text, encoding="utf-8")
    if plots is not None:
        from ..bench.reports.method_plots import plot_methods
        from ..bench.reports.plots import plot_curves
        from ..bench.reports.scene_plots import plot_scenes

        draw = plot_methods if "models" in page["settings"] else plot_curves
        draw = plot_methods if "models" in page["settings"] else plot_curves
        if page["kind"] == "scenes":
            draw = plot_scenes
        with complete_figures(kept):
            written = draw(page, plots)
        for file in written:
            say(f"Wrote {file}")
    for document in into or []:
        shown = picture(page["kind"], plots, document) if plots is not None else ""
        write_into(document, page["kind"], shown + text)
