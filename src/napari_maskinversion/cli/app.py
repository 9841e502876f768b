"""The command line. Quick to start: torch is imported when a model is first used."""

from __future__ import annotations

import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.table import Table

from .. import __version__
from ..base.errors import InputError, MaskInversionError
from ..base.identity import identify_image
from ..engine.methods.registry import MASKINVERSION, TYPICAL, Method, list_methods
from ..engine.settings import ExplainerName, InversionConfig
from ..images.windows import WindowConfig
from ..language.captions.bank import TOP, check_top
from ..language.labels.templates import TEMPLATES
from ..language.ranking.uncertainty import UncertaintyConfig
from ..pipeline.run import check_tasks
from ..results.export.bundle import Bundle, compress_masks
from ..results.export.catalogue import DEFAULT, FORMATS, check_formats, write_results
from ..results.export.heatmaps import check_room
from ..results.export.targets import check_folder
from ..results.printing import print_results
from ..results.results import MOST_PIXELS
from .bench_data import bench
from .captions import CaptionSource
from .captions import captions as captions_commands
from .export import export_command
from .find import find_command
from .inputs import input_files, open_inputs, origin
from .labels import labels as labels_commands
from .labels import vocabulary_of
from .models import WIDTH, load, models, say
from .options import (
    Architecture,
    Channels,
    ChunkSize,
    Context,
    Device,
    Explainer,
    Fast,
    ImageFile,
    Layers,
    LearningRate,
    MaskFiles,
    Merge,
    MethodName,
    MethodWeights,
    Model,
    Only,
    Plane,
    Planes,
    Resolution,
    Square,
    Steps,
    TopCaptions,
    UnsureIou,
    UnsureMargin,
    UnsureTokens,
    Window,
)
from .rebuild_demo import rebuild_command
from .rollout import rollout_command
from .running import invert, say_unfinished
from .segment import segment_command

if TYPE_CHECKING:
    pass

BAD_INPUT = 2
_UNSURE = UncertaintyConfig()

app = typer.Typer(
    name="napari-maskinversion",
    help="Name, explain and embed the regions of an image (MaskInversion on CLIP).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(models, name="models")
app.add_typer(labels_commands, name="labels")
app.add_typer(captions_commands, name="captions")
app.add_typer(bench, name="bench")
app.command("find")(find_command)
app.command("segment")(segment_command)
app.command("export")(export_command)
app.command("rollout")(rollout_command)
app.command("rebuild-demo")(rebuild_command)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"napari-maskinversion {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    pass


@app.command("run")
def run_command(
    image: ImageFile,
    masks: MaskFiles,
    labels: Annotated[
        str | None,
        typer.Option(
            help="Labels separated by commas (car | automobile: synonyms), a file of them (text, "
            "CSV, YAML), or a list that comes along: preset:coco; see labels list."
        ),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Prompts: {', '.join(TEMPLATES)}, or a sentence with {{}}; may be repeated. "
            "Unless given those of the file or preset, else photo."
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Similarity below which a region is 'none of these' (default: never)."),
    ] = None,
    captions: Annotated[
        Path | None,
        typer.Option(
            help="Also, or instead of labels: the best captions of a bank (see captions build), "
            "or of a text or CSV file, which is embedded first and kept."
        ),
    ] = None,
    caption_column: Annotated[
        str | None, typer.Option(help="Column of a CSV file of captions.")
    ] = None,
    top_captions: TopCaptions = TOP,
    unsure_tokens: UnsureTokens = _UNSURE.tokens,
    unsure_iou: UnsureIou = _UNSURE.overlap,
    unsure_margin: UnsureMargin = _UNSURE.odds,
    model: Model = "demo",
    architecture: Architecture = None,
    method: MethodName = MASKINVERSION,
    method_weights: MethodWeights = None,
    device: Device = "auto",
    out: Annotated[
        Path,
        typer.Option(
            help="Folder for the results: what is suggested. Decisions of a review are in what the "
            "panel exports."
        ),
    ] = Path("maskinversion_output"),
    formats: Annotated[
        str,
        typer.Option("--format", help=f"What to write, separated by commas: {', '.join(FORMATS)}."),
    ] = ",".join(DEFAULT),
    overwrite: Annotated[bool, typer.Option(help="Replace results in the folder.")] = False,
    steps: Steps = 10,
    learning_rate: LearningRate = 0.1,
    alpha: Annotated[
        float, typer.Option(help="0: the region alone; about 5: with its context.")
    ] = 0.0,
    layers: Layers = 1,
    explainer: Explainer = "legrad",
    fast: Fast = False,
    chunk_size: ChunkSize = None,
    resolution: Resolution = None,
    square: Square = False,
    window: Window = "auto",
    context: Context = 2.0,
    planes: Planes = None,
    plane: Plane = "",
    channels: Channels = None,
    only: Only = "",
    merge: Merge = None,
    pixel_size: Annotated[
        float | None, typer.Option(help="Size of a pixel (default: what the file says).")
    ] = None,
    unit: Annotated[str, typer.Option(help="Unit of --pixel-size.")] = "µm",
) -> None:
    """Embed, label and explain the regions of an image; writes files and prints a table."""
    if labels is None and captions is None:
        raise InputError("Say --labels dog,cat or --captions FILE, or both.")
    check_top(top_captions)
    unsure = UncertaintyConfig(tokens=unsure_tokens, overlap=unsure_iou, odds=unsure_margin)
    windows = WindowConfig.parse(window, context)
    config = InversionConfig(
        steps=steps,
        learning_rate=learning_rate,
        alpha=alpha,
        layers=layers,
        explainer=cast("ExplainerName", explainer),
        fast=fast,
    )
    way = Method(method, method_weights)
    way.check()
    chosen = [name.strip() for name in formats.split(",") if name.strip()]
    names = check_formats(chosen)
    vocabulary = None if labels is None else vocabulary_of(labels, template or (), threshold)
    caption_source = None if captions is None else CaptionSource(captions, column=caption_column)
    files = input_files(image, masks, labels, captions, model, method_weights)
    check_folder(out, names, overwrite=overwrite, inputs=files)
    inputs = open_inputs(
        image,
        masks,
        plane=plane,
        planes=planes,
        channels=channels,
        only=only,
        merge=merge or [],
        pixel_size=pixel_size,
        unit=unit,
    )
    tasks = inputs.tasks
    count, shape = sum(len(task.regions) for task in tasks), tasks[0].regions.shape
    check_tasks(tasks)
    source = origin(image, masks, channels)
    if "tif" in chosen and way.inverts:
        large = shape[0] * shape[1] > MOST_PIXELS
        # Heatmaps of large planes are kept at the size of the model's input.
        check_room(out, count, (1024, 1024) if large else shape)
    identity = asdict(identify_image(image.name, inputs.stack.levels[0]))
    loaded = load(model, architecture, device)
    bank = None if caption_source is None else caption_source.bank(loaded)
    results, finished = invert(
        loaded,
        inputs,
        vocabulary,
        config,
        windows,
        chunk_size=chunk_size,
        resolution=resolution,
        square=square,
        bank=bank,
        top_captions=top_captions,
        unsure=unsure,
        method=way,
    )
    bundle = Bundle(results=results, masks=compress_masks(tasks), source=source, image=identity)
    written = write_results(bundle, out, chosen)
    print_results(results)
    if way.lacks:
        say(way.lacks)
    say(f"Wrote {', '.join(file.name for file in written)} in {out}")
    if not finished:
        say_unfinished(results, inputs)


@app.command("methods")
def methods_command() -> None:
    """List the ways to embed a region, what they do and what they cost."""
    table = Table()
    for name in ("--method", "what the model sees and what is taken of it"):
        table.add_column(name)
    table.add_column(f"{TYPICAL} regions cost, passes", justify="right")
    for spec in list_methods():
        cost = f"{spec.image + TYPICAL * spec.region:.0f}"
        table.add_row(spec.name, f"{spec.title}: {spec.about}", cost)
    Console(width=WIDTH).print(table)
    say("Two of them joined by + are averaged, such as maskinversion+crop.")


@app.command("demo")
def demo_command(
    out: Annotated[Path, typer.Option(help="Where files go when there is no display.")] = Path(
        "demo_output"
    ),
    screenshot: Annotated[
        bool,
        typer.Option(
            "--screenshot", help="Write files and a screenshot and close, display or not."
        ),
    ] = False,
) -> None:
    """Open napari with a sample scene, its regions inverted and labelled.

    Without a display the same happens in a virtual one, and files and a screenshot are written.
    """
    # By name and late: the command line itself does not depend on napari.
    module = import_module("napari_maskinversion._napari.plugin.demo")
    raise typer.Exit(module.run_demo(out, screenshot=screenshot))


def main() -> None:
    """Entry point: our own errors are one line and exit code 2."""
    try:
        app()
    except MaskInversionError as error:
        say("Error: " + " ".join(str(error).split()))
        sys.exit(BAD_INPUT)
    except (MemoryError, RuntimeError) as error:
        # CUDA says that its memory is full by a RuntimeError.
        if isinstance(error, RuntimeError) and "out of memory" not in str(error).lower():
            raise
        say("Error: there was not enough memory; use a smaller --chunk-size, or --device cpu.")
        sys.exit(BAD_INPUT)
