"""The command line's ``models`` commands, and what it shares with the rest of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn
from rich.table import Table

from ..base.errors import InputError

if TYPE_CHECKING:
    from ..engine.models.backbone import Backbone
    from ..regions.sam.checkpoints import CheckpointSpec

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
    from ..engine.models.registry import list_models, model_state
    from ..regions.sam.checkpoints import CHECKPOINTS

    table = Table()
    for title in ("name", "state", "size", "input", "licence", "what"):
        table.add_column(title, no_wrap=title == "name")
    for spec in list_models():
        pixels = f"{spec.working_resolution} ({spec.native_resolution})"
        row = (spec.name, model_state(spec), spec.size_text, pixels, spec.license, spec.title)
        table.add_row(*(escape(text) for text in row))
    table.add_section()
    for sam in CHECKPOINTS.values():
        about = f"{sam.title} (for segment)"
        table.add_row(sam.name, sam.state, sam.size_text, "1024", sam.license, about)
    Console(width=WIDTH).print(table)
    typer.echo(
        "Input: working resolution (native) in pixels. Most other name/tag pairs of "
        "open_clip with a vision transformer and local checkpoint files work too."
    )


@models.command("where")
def where_command() -> None:
    """Say where everything that is fetched or computed once is kept, and how large it is.

    The folder on standard output, sizes on standard error.
    """
    from ..pipeline.cache_usage import usage

    found = usage()
    typer.echo(found.folder)
    for line in found.lines() or ["empty"]:
        say(line)


@models.command("clear")
def clear_command(
    only: Annotated[
        str | None,
        typer.Option(
            help="Some of weights, texts, captions, speeds, exemplars, separated by commas."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete what can be fetched or computed again; decisions of reviews stay."""
    from ..pipeline.cache_usage import KINDS, clear, readable, usage

    names = [kind.name for kind in KINDS]
    if only is not None:
        names = [name.strip() for name in only.split(",") if name.strip()]
    found = usage()
    said = [
        f"{kind.title} ({readable(found.sizes[kind.name])})"
        for kind in KINDS
        if kind.name in names and found.sizes[kind.name]
    ]
    if not said and set(names) <= set(found.sizes):
        say(f"There is nothing to clear in {found.folder}")
        return
    if said and not yes:
        say(f"From {found.folder} this deletes: {', '.join(said)}.")
        if not sys.stdin.isatty():
            raise InputError("Nothing was deleted, since nobody can be asked; say --yes.")
        typer.confirm("Delete?", abort=True, err=True)
    done = clear(names)
    say(f"Freed {readable(done.freed)}")
    for problem in done.problems:
        say(problem)
    if done.problems:
        raise typer.Exit(1)


class FetchBar:
    """Says what is being fetched, then how far it is; silent where nothing has to be.

    Parameters
    ----------
    name : str
        Of the model, or the file.
    announce : callable, optional
        Says what is fetched; unless given, what is known of the model of that name.
    """

    def __init__(self, name: str, announce: Callable[[], None] | None = None) -> None:
        self._announce = announce or (lambda: _announce(name))
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._name = name
        self._task: TaskID | None = None

    def __enter__(self) -> FetchBar:
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def update(self, done: int, total: int) -> None:
        """Show ``done`` of ``total`` bytes."""
        if self._task is None and done >= total:
            return  # it was here already
        if self._task is None:
            self._announce()
            self._bar.start()
            self._task = self._bar.add_task(self._name)
        self._bar.update(self._task, completed=done, total=total)


def _announce(name: str) -> None:
    from ..engine.models.registry import get_spec

    spec = get_spec(name)
    say(
        f"Fetching {spec.name}: {spec.size_text}, licence {spec.license}, trained at "
        f"{spec.native_resolution} px, used at {spec.working_resolution} px"
    )


def announce_checkpoint(spec: CheckpointSpec) -> None:
    """Say what is fetched of SAM."""
    say(f"Fetching {spec.file}: {spec.size_text}, licence {spec.license}")


def load(name: str, architecture: str | None, device: str) -> Backbone:
    """Load a model, with a bar if it has to be fetched first."""
    from ..engine.models.device_fallback import load_where_it_fits

    with FetchBar(name) as bar:
        found = load_where_it_fits(
            name, device=device, architecture=architecture, on_progress=bar.update
        )
    if found.note:
        say(found.note)
    return found.model


@models.command("fetch")
def fetch_command(
    name: Annotated[str, typer.Argument(help="Model name, or that of a SAM checkpoint (vit_b).")],
) -> None:
    """Fetch a model's weights; Ctrl-C stops, and the next fetch goes on from there."""
    from ..engine.models.weights_download import fetch
    from ..regions.sam.checkpoints import CHECKPOINTS, fetch_checkpoint

    sam = CHECKPOINTS.get(name.lower())
    with FetchBar(name, None if sam is None else lambda: announce_checkpoint(sam)) as bar:
        try:
            if sam is None:
                path = fetch(name, on_progress=bar.update)
            else:
                path = fetch_checkpoint(sam, on_progress=bar.update)
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
    from ..engine.models.self_check import check_model, crops
    from ..images.sample_scenes import load_scene, scene_names

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
