"""The command line: all commands, and how errors are shown.

Quick to start: torch is imported when a model is first used.
"""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from .. import __version__
from ..base.errors import MaskInversionError
from .bench_data import bench
from .captions import captions
from .console import say
from .demo import demo_command
from .export import export_command
from .find import find_command
from .labels import labels
from .methods import methods_command
from .models import models
from .rebuild_demo import rebuild_command
from .rollout import rollout_command
from .run import run_command
from .segment import segment_command

BAD_INPUT: Final = 2  # exit code

app = typer.Typer(
    name="napari-maskinversion",
    help="Name, explain and embed the regions of an image (MaskInversion on CLIP).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("run")(run_command)
app.command("find")(find_command)
app.command("segment")(segment_command)
app.command("export")(export_command)
app.command("rollout")(rollout_command)
app.command("methods")(methods_command)
app.command("demo")(demo_command)
app.command("rebuild-demo")(rebuild_command)
app.add_typer(models, name="models")
app.add_typer(labels, name="labels")
app.add_typer(captions, name="captions")
app.add_typer(bench, name="bench")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"napari-maskinversion {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; our own errors are one line and exit code 2."""
    try:
        app()
    except MaskInversionError as error:
        say("Error: " + " ".join(str(error).split()))
        sys.exit(BAD_INPUT)
    except (MemoryError, RuntimeError) as error:
        from ..engine.compute.memory import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        say("Error: there was not enough memory; use a smaller --chunk-size, or --device cpu.")
        sys.exit(BAD_INPUT)
