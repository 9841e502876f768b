"""The ``bench`` commands: measure a model on regions with known names."""

from __future__ import annotations

from collections.abc import Callable, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..base import progress_words as words
from ..base.errors import InputError
from ..engine.settings import InversionConfig
from .console import INTERRUPTED, ProgressBar, say
from .loading import load
from .options import setting_option

if TYPE_CHECKING:
    from ..bench.model_under_test import ModelUnderTest

SMALL_WIDTH = 256  # of an image tower
REAL_SETS = ("dubai-aerial", "bccd", "dsb2018-nuclei")

bench = typer.Typer(
    help="Measure a model: names and heatmaps of regions with known names.", no_args_is_help=True
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
    typer.Option("--json", help="Keep the figures here; a stopped measurement continues."),
]
Markdown = Annotated[Path | None, typer.Option(help="Write the tables to this file.")]
Into = Annotated[
    list[Path] | None,
    typer.Option(help="Put the tables between the marks in this document; may be repeated."),
]
Overwrite = Annotated[bool, typer.Option(help="Measure again what the JSON file holds.")]
Plots = Annotated[Path | None, typer.Option(help="Folder for the plots as SVG files.")]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out images that cannot be used, and list them.")
]


@bench.command("scenes")
def scenes_command(
    model: ModelName = "demo",
    scenes: Scenes = 200,
    objects: Annotated[
        str, typer.Option(help="Objects in a scene, separated by commas.")
    ] = "3,4,5",
    real: Annotated[
        bool | None,
        typer.Option("--real/--no-real", help="Also use real images (default: if there are any)."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of the real images (default: NAPARI_MASKINVERSION_DATA)."),
    ] = None,
    per_class: Annotated[int, typer.Option(help="Most real regions of a class.")] = 100,
    sprites: Sprites = None,
    steps: Steps = 10,
    learning_rate: Rate = 0.1,
    resolution: Annotated[
        int | None,
        typer.Option(
            help="Side of MaskInversion's input in pixels (default: chosen on other scenes)."
        ),
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
        typer.Option("--short", help="Use only the bundled drawings: a minute or less, offline."),
    ] = False,
) -> None:
    """Name objects and regions of new scenes and real images by MaskInversion and other methods.

    Each method has the settings that were best on validation scenes (or the validation split of
    real images), never on those that are measured.
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
        say("Without real images: set NAPARI_MASKINVERSION_DATA, or --data, to their folder.")
    job = ScenesBench(subject, plan, record)
    for kind in job.unknown:
        say(f"{subject.model.name} did not learn the names of kind {kind}; they are left out.")
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
    short: Annotated[bool, typer.Option("--short", help="Use only the bundled drawings.")] = False,
) -> None:
    """Measure accuracy, heatmap overlap and loss after every step of the inversion."""
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate, alpha=alpha)
    values = tuple(float(k) for k in range(steps + 1))
    options = (model, scenes, objects, resolution, sprites, device, json, overwrite, short)
    _curve("steps", values, inversion, *options, shown=(markdown, into, plots))


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
    short: Annotated[bool, typer.Option("--short", help="Use only the bundled drawings.")] = False,
) -> None:
    """Measure accuracy and heatmap overlap for several values of alpha."""
    try:
        values = tuple(float(a) for a in alphas.split(","))
    except ValueError:
        raise InputError(f"--alphas takes numbers such as 0,1,5; got {alphas!r}.") from None
    inversion = InversionConfig(steps=steps, learning_rate=learning_rate)
    for value in values:
        InversionConfig(alpha=value)  # raises for values that cannot be weights
    options = (model, scenes, objects, resolution, sprites, device, json, overwrite, short)
    _curve("alpha", values, inversion, *options, shown=(markdown, into, plots))


@bench.command("show")
def show_command(
    figures: Annotated[Path, typer.Argument(help="JSON file of another bench command.")],
    markdown: Markdown = None,
    into: Into = None,
    plots: Plots = None,
) -> None:
    """Print the tables of saved figures, plot them, and put them into documents."""
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
    """Load a model with the names that it chooses from."""
    import torch

    from ..bench.model_under_test import subject_of

    subject = subject_of(load(model, None, device))
    if subject.model.embed_dim <= SMALL_WIDTH:
        torch.set_num_threads(1)  # threads make small tensors slower
    return subject


def _at_least(least: int, **options: int) -> None:
    for name, value in options.items():
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


def _real_folder(wanted: bool | None, data: Path | None) -> Path | None:
    if wanted is False:
        return None
    from ..demo_model.domains import data_folder

    folder = data or data_folder()
    if folder is None and wanted:
        raise InputError(
            "There are no real images: set NAPARI_MASKINVERSION_DATA, or --data, to their folder."
        )
    missing = [n for n in REAL_SETS if folder is not None and not (folder / n / "images").is_dir()]
    if missing:
        raise InputError(
            f"{folder} has no {', '.join(missing)} with images; --no-real leaves them out."
        )
    return folder


def check_places(
    sprites: Path | None,
    json: Path | None,
    markdown: Path | None,
    into: list[Path] | None,
    kind: str,
) -> None:
    """Raise for files that cannot be read or written, and for documents without marks."""
    from ..base.output_folder import check_folder
    from ..bench.reports.tables import around

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
    """Measure under a progress bar; Ctrl-C keeps the finished parts."""
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
    """Print the tables of figures, plot them, and put them into documents.

    ``kept`` is the file the figures come from, if any.
    """
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
        if page["kind"] == "scenes":
            draw = plot_scenes
        with complete_figures(kept):
            written = draw(page, plots)
        for file in written:
            say(f"Wrote {file}")
    for document in into or []:
        shown = picture(page["kind"], plots, document) if plots is not None else ""
        write_into(document, page["kind"], shown + text)
