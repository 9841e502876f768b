"""The command line's ``models`` commands, and what it shares with the rest of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn
from rich.table import Table

if TYPE_CHECKING:
    from .core.model import Backbone

INTERRUPTED = 130
# Tables are for people: wide enough where no terminal says how wide it is.
WIDTH = None if sys.stdout.isatty() else 120

models = typer.Typer(help="The models: list, place, fetch, check.", no_args_is_help=True)


def say(message: str) -> None:
    """Print one line on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(escape(message))


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
    Console(width=WIDTH).print(table)
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
    say(
        f"Fetching {spec.name}: {size}, licence {spec.license}, trained at "
        f"{spec.native_resolution} px, used at {spec.working_resolution} px"
    )


def load(name: str, architecture: str | None, device: str) -> Backbone:
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

    model = load(name, architecture, device)
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
