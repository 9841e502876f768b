"""The command line. Quick to start: torch is imported when a model is first used."""

from __future__ import annotations

import math
import sys
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table

from . import __version__
from .cli_bench import bench
from .cli_inputs import open_inputs, origin
from .cli_labels import labels as labels_commands
from .cli_labels import vocabulary_of
from .cli_models import INTERRUPTED, WIDTH, load, models, say
from .cli_rebuild import rebuild_command
from .core.config import InversionConfig
from .core.errors import MaskInversionError
from .estimate import estimate
from .export.atomic import check_folder
from .export.files import FORMATS, check_formats, check_room, write_results
from .pipeline import RegionChunk, check_tasks, run_planes
from .results import MOST_PIXELS
from .retrieval.templates import TEMPLATES
from .windows import WindowConfig

if TYPE_CHECKING:
    from .results import Results

BAD_INPUT = 2

app = typer.Typer(
    name="napari-maskinversion",
    help="Name, explain and embed the regions of an image (MaskInversion on CLIP).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(models, name="models")
app.add_typer(labels_commands, name="labels")
app.add_typer(bench, name="bench")
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
    image: Annotated[Path, typer.Argument(help="Image file: PNG, TIFF, OME-Zarr, ...")],
    masks: Annotated[
        Path,
        typer.Argument(help="Label image or stack, or a folder or file of several binary masks."),
    ],
    labels: Annotated[
        str,
        typer.Option(
            help="Labels separated by commas (car | automobile: synonyms), a file of them (text, "
            "CSV, YAML), or a list that comes along: preset:coco; see labels list."
        ),
    ],
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
    model: Annotated[str, typer.Option(help="Model name, or a checkpoint file.")] = "demo",
    architecture: Annotated[
        str | None, typer.Option(help="open_clip architecture of a checkpoint file.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path(
        "maskinversion_output"
    ),
    formats: Annotated[
        str, typer.Option("--format", help="What to write, separated by commas.")
    ] = ",".join(FORMATS),
    overwrite: Annotated[bool, typer.Option(help="Replace results in the folder.")] = False,
    steps: Annotated[int, typer.Option(help="Optimisation steps per region.")] = 10,
    learning_rate: Annotated[float, typer.Option(help="Step size of AdamW.")] = 0.1,
    alpha: Annotated[
        float, typer.Option(help="0: the region alone; about 5: with its context.")
    ] = 0.0,
    layers: Annotated[int, typer.Option(help="Last layers that are explained.")] = 1,
    chunk_size: Annotated[
        int | None, typer.Option(help="Regions inverted together (default 16).")
    ] = None,
    resolution: Annotated[
        int | None, typer.Option(help="Pixels of the model's input (default: the model's).")
    ] = None,
    square: Annotated[
        bool, typer.Option("--square", help="Squeeze the image into a square.")
    ] = False,
    window: Annotated[
        str,
        typer.Option(help="What the model sees with a region: auto, whole, or a side in pixels."),
    ] = "auto",
    context: Annotated[
        float, typer.Option(help="Side of a window over the longer side of its region.")
    ] = 2.0,
    planes: Annotated[
        str | None,
        typer.Option(
            help="All planes of a 3-D or time label file: each region on the plane where it is "
            "largest, or on each plane it touches (largest, each)."
        ),
    ] = None,
    plane: Annotated[str, typer.Option(help="Plane of a stack, for example z=12,t=3.")] = "",
    channels: Annotated[
        str | None, typer.Option(help="Channels by number or name, for example 0,2.")
    ] = None,
    only: Annotated[str, typer.Option(help="Only these labels, for example 3,5.")] = "",
    merge: Annotated[
        list[str] | None, typer.Option(help="Labels made one region, 3,5,9; may be repeated.")
    ] = None,
    pixel_size: Annotated[
        float | None, typer.Option(help="Size of a pixel (default: what the file says).")
    ] = None,
    unit: Annotated[str, typer.Option(help="Unit of --pixel-size.")] = "µm",
) -> None:
    """Embed, label and explain the regions of an image; writes files and prints a table."""
    windows = WindowConfig.parse(window, context)
    config = InversionConfig(steps=steps, learning_rate=learning_rate, alpha=alpha, layers=layers)
    chosen = [name.strip() for name in formats.split(",") if name.strip()]
    names = check_formats(chosen)
    vocabulary = vocabulary_of(labels, template or (), threshold)
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
    tasks, units = inputs.tasks, inputs.units
    count, shape = sum(len(task.regions) for task in tasks), tasks[0].regions.shape
    check_tasks(tasks, vocabulary, config, chunk_size=chunk_size)
    source = origin(image, masks)
    check_folder(out, names, overwrite=overwrite)
    if "tif" in chosen:
        large = shape[0] * shape[1] > MOST_PIXELS
        # Heatmaps of large planes are kept at the size of the model's input.
        check_room(out, count, (1024, 1024) if large else shape)
    loaded = load(model, architecture, device)
    size = estimate(
        tasks,
        model=loaded.name,
        device=str(loaded.device),
        resolution=resolution or loaded.working_resolution,
        patch=loaded.patch_size,
        config=config,
        window=windows,
    )
    work = run_planes(
        loaded,
        tasks,
        vocabulary,
        config,
        chunk_size=chunk_size,
        resolution=resolution,
        keep_aspect=not square,
        window=windows,
        units=units,
    )
    with inputs.stack:
        results, finished = _follow(work, size.text)
    if results is None:
        say("Stopped before the first regions were finished; nothing was written.")
        raise typer.Exit(INTERRUPTED)
    results = results.in_order()
    write_results(results, out, chosen, source=source)
    print_table(results)
    say(f"Wrote {', '.join(names)} in {out}")
    if not finished:
        say(f"Stopped: {len(results)} of {count} regions were finished and are kept.")
        raise typer.Exit(INTERRUPTED)


def _follow(work: Generator[Any, None, Results], size: str) -> tuple[Results | None, bool]:
    """Drive the pipeline under a progress bar; Ctrl-C keeps the chunks that are finished."""
    results: Results | None = None
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Starting", total=1.0)
        try:
            first = next(work)  # whatever is refused is refused here
            bar.console.print(escape(size), highlight=False, soft_wrap=True)
            bar.update(task, description=first.text)
            while True:
                news = next(work)
                if isinstance(news, RegionChunk):
                    results = news.so_far
                else:
                    bar.update(task, completed=news.fraction, description=news.text)
        except StopIteration as stop:
            return stop.value, True
        except KeyboardInterrupt:
            work.close()
            return results, False


def print_table(results: Results) -> None:
    """Print the ranked labels of each region on standard output."""
    table = Table(title=f"{len(results)} regions, model {results.info.model}")
    for title, justify in (
        ("region", "right"),
        ("suggestion", "left"),
        ("similarity", "right"),
        ("margin", "right"),
        ("heatmap IoU", "right"),
        ("then", "left"),
        ("status", "left"),
    ):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    for row in results.to_frame().to_dict("records"):
        # Where none fits, the labels that come nearest are told all the same.
        none = row["suggestion"] != row.get("label_1", row["suggestion"])
        places = (1, 2) if none else (2, 3)
        others = [row[f"label_{i}"] for i in places if isinstance(row.get(f"label_{i}"), str)]
        table.add_row(
            str(row["region"]),
            escape(str(row["suggestion"])),
            f"{row['similarity']:.3f}",
            "" if math.isnan(row["margin"]) else f"{row['margin']:.3f}",
            f"{row['iou']:.2f}",
            escape(", ".join(others)),
            str(row["status"]),
        )
    Console(width=WIDTH).print(table)


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
    module = import_module("napari_maskinversion._napari.demo")
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


if __name__ == "__main__":
    main()
