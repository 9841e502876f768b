"""The command line. Quick to start: torch is imported when a model is first used."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Generator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
)
from rich.table import Table

from . import __version__
from .core.config import InversionConfig
from .core.errors import InputError, MaskInversionError
from .export.atomic import check_folder
from .export.files import FORMATS, check_formats, write_results
from .pipeline import RegionChunk, check_inputs, run
from .retrieval.vocabulary import TEMPLATES, Vocabulary

if TYPE_CHECKING:
    from .core.model import Backbone
    from .results import Results

BAD_INPUT = 2
INTERRUPTED = 130

app = typer.Typer(
    name="napari-maskinversion",
    help="Name, explain and embed the regions of an image (MaskInversion on CLIP).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
models = typer.Typer(help="The models: list, place, fetch, check.", no_args_is_help=True)
app.add_typer(models, name="models")

# Tables are for people: wide enough where no terminal says how wide it is.
_WIDTH = None if sys.stdout.isatty() else 120


def _say(message: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(escape(message))


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
    image: Annotated[Path, typer.Argument(help="Image file: PNG, TIFF, JPEG, ...")],
    masks: Annotated[
        Path,
        typer.Argument(help="Label image, or a folder or multi-page file of binary masks."),
    ],
    labels: Annotated[
        str, typer.Option(help="Labels separated by commas, or a text file with one per line.")
    ],
    template: Annotated[
        str, typer.Option(help=f"Prompts: {', '.join(TEMPLATES)}, or a sentence with {{}}.")
    ] = "photo",
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
) -> None:
    """Embed, label and explain the regions of an image; writes files and prints a table."""
    from .images.reading import mask_files, read_image, read_regions

    config = InversionConfig(steps=steps, learning_rate=learning_rate, alpha=alpha, layers=layers)
    chosen = [name.strip() for name in formats.split(",") if name.strip()]
    names = check_formats(chosen)
    vocabulary = _vocabulary(labels, template)
    pixels = read_image(image)
    regions = read_regions(masks, (pixels.shape[0], pixels.shape[1]))
    check_inputs(pixels, regions, vocabulary, config, chunk_size=chunk_size)
    check_folder(out, names, overwrite=overwrite)
    loaded = _load(model, architecture, device)
    work = run(
        loaded,
        pixels,
        regions,
        vocabulary,
        config,
        chunk_size=chunk_size,
        resolution=resolution,
        keep_aspect=not square,
    )
    results, finished = _follow(work)
    if results is None:
        _say("Stopped before the first regions were finished; nothing was written.")
        raise typer.Exit(INTERRUPTED)
    origin: dict[str, Any] = {"image": _describe(image)}
    if masks.is_dir():
        files = {str(i): _describe(file) for i, file in enumerate(mask_files(masks), 1)}
        origin["masks"] = {"folder": masks.resolve().name, "regions": files}
    else:
        origin["masks"] = _describe(masks)
    write_results(results, out, chosen, source=origin)
    print_table(results)
    _say(f"Wrote {', '.join(names)} in {out}")
    if not finished:
        _say(f"Stopped: {len(results)} of {len(regions)} regions were finished and are kept.")
        raise typer.Exit(INTERRUPTED)


def _vocabulary(labels: str, template: str) -> Vocabulary:
    if template not in TEMPLATES and "{}" not in template:
        raise InputError(
            f"Unknown template {template!r}; choose from {', '.join(TEMPLATES)}, "
            "or write a sentence with {} where the label goes."
        )
    templates = TEMPLATES.get(template, (template,))
    if Path(labels).is_file():
        return Vocabulary.read(labels, templates)
    if Path(labels).suffix.lower() in {".txt", ".csv"}:
        raise InputError(f"There is no label file at {labels}; check the path.")
    return Vocabulary.parse(labels, templates)


def _follow(work: Generator[Any, None, Results]) -> tuple[Results | None, bool]:
    """Drive the pipeline under a progress bar; Ctrl-C keeps the chunks that are finished."""
    results: Results | None = None
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Starting", total=1.0)
        try:
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
        others = [f"{row[f'label_{i}']}" for i in (2, 3) if isinstance(row.get(f"label_{i}"), str)]
        table.add_row(
            str(row["region"]),
            escape(str(row["suggestion"])),
            f"{row['similarity']:.3f}",
            "" if math.isnan(row["margin"]) else f"{row['margin']:.3f}",
            f"{row['iou']:.2f}",
            escape(", ".join(others)),
            str(row["status"]),
        )
    Console(width=_WIDTH).print(table)


@models.command("list")
def list_command() -> None:
    """List the models, and whether they are on this machine."""
    from .core.registry import list_models, model_state

    table = Table()
    for title in ("name", "state", "size", "input", "licence", "what"):
        table.add_column(title, no_wrap=title == "name")
    for spec in list_models():
        size = f"{spec.size_mb:,} MB" if spec.size_mb else "?"
        pixels = f"{spec.working_resolution} ({spec.native_resolution})"
        row = (spec.name, model_state(spec), size, pixels, spec.license, spec.title)
        table.add_row(*(escape(text) for text in row))
    Console(width=_WIDTH).print(table)
    typer.echo(
        "Input: working resolution (native) in pixels. Any other open_clip name/tag with a "
        "class-token ViT and local checkpoint files work too."
    )


@models.command("where")
def where_command() -> None:
    """Say where fetched models and text embeddings are kept."""
    from .core.cache import cache_folder

    typer.echo(cache_folder())


class _FetchBar:
    """Says what is being fetched, then how far it is; silent where nothing has to be."""

    def __init__(self, name: str) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._name = name
        self._task: TaskID | None = None

    def __enter__(self) -> _FetchBar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, done: int, total: int) -> None:
        """Show ``done`` of ``total`` bytes."""
        if self._task is None and done >= total:
            return  # it was here already
        if self._task is None:
            _announce(self._name)
            self._bar.start()
            self._task = self._bar.add_task(self._name)
        self._bar.update(self._task, completed=done, total=total)


def _announce(name: str) -> None:
    from .core.registry import get_spec

    spec = get_spec(name)
    size = f"{spec.size_mb:,} MB" if spec.size_mb else "size not known yet"
    _say(
        f"Fetching {spec.name}: {size}, licence {spec.license}, trained at "
        f"{spec.native_resolution} px, used at {spec.working_resolution} px"
    )


def _load(name: str, architecture: str | None, device: str) -> Backbone:
    """Load a model, with a bar if it has to be fetched first."""
    from .core.backbone import load_model

    with _FetchBar(name) as bar:
        return load_model(name, architecture=architecture, device=device, on_progress=bar.update)


@models.command("fetch")
def fetch_command(name: Annotated[str, typer.Argument(help="Model name.")]) -> None:
    """Fetch a model's weights; Ctrl-C stops, and the next fetch goes on from there."""
    from .core.download import fetch

    with _FetchBar(name) as bar:
        try:
            path = fetch(name, on_progress=bar.update)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    typer.echo(f"{name} is at {path}")


@models.command("check")
def check_command(
    name: Annotated[str, typer.Argument(help="Model name, or a checkpoint file.")],
    architecture: Annotated[
        str | None, typer.Option(help="open_clip architecture of a checkpoint file.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
) -> None:
    """Run a model on known pictures and say whether its answers are the expected ones."""
    from .core.check import check_model, crops
    from .images.samples import load_scene, scene_names

    model = _load(name, architecture, device)
    pictures = None
    if model.spec is not None and model.spec.bundled:
        # It knows drawings, so it is asked about those of the sample scenes.
        scenes = [load_scene(scene) for scene in scene_names()]
        pictures = [
            picture
            for scene in scenes
            for picture in crops(
                scene.name, scene.image, scene.regions, scene.truth, scene.vocabulary
            )
        ]
    report = check_model(model, pictures)
    typer.echo(str(report))
    if not report.ok:
        raise typer.Exit(1)


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


def _describe(file: Path) -> dict[str, Any]:
    """Name and hash of an input."""
    with file.open("rb") as content:
        return {"file": file.name, "sha256": hashlib.file_digest(content, "sha256").hexdigest()}


def main() -> None:
    """Entry point: our own errors are one line and exit code 2."""
    try:
        app()
    except MaskInversionError as error:
        _say("Error: " + " ".join(str(error).split()))
        sys.exit(BAD_INPUT)


if __name__ == "__main__":
    main()
