"""The command ``demo``: napari with a sample scene."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from .console import echo


def demo_command(
    out: Annotated[Path, typer.Option(help="Folder for the files if there is no display.")] = Path(
        "demo_output"
    ),
    screenshot: Annotated[
        bool,
        typer.Option(
            "--screenshot",
            help="Write the files and a screenshot and close, even if there is a display.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="As --screenshot; then print what was made, and fail if something is missing.",
        ),
    ] = False,
) -> None:
    """Open napari with a sample scene and label its regions.

    Without a display a virtual one is used, and files and a screenshot are written.
    """
    # By name and late: the command line does not depend on napari.
    module = import_module("napari_maskinversion._napari.plugin.demo")
    status = module.run_demo(out, screenshot=screenshot or check)
    if check and status == 0:
        echo("\n".join(module.describe(out)))
    raise typer.Exit(status)
