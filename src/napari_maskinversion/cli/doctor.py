"""The command ``doctor``: what this installation has, and what is wrong with it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from ..doctor.checks import MARK, examine
from .console import echo

_COLORS = {"ok": "green", "note": "yellow", "problem": "red"}


def doctor_command(
    as_json: Annotated[bool, typer.Option("--json", help="Print all facts as JSON.")] = False,
) -> None:
    """Check the installation, and show how to fix problems.

    The exit status is 1 if there is a problem; notes (no GPU, no Qt) leave it at 0. Opens no
    connection. Paths in your home folder begin with ~: the report can be shown to others.
    """
    report = examine()
    if as_json:
        echo(report.json())
    else:
        console = Console(highlight=False, soft_wrap=True)
        for line in report.text().splitlines():
            text = Text(line)
            text.stylize(_COLORS.get(line[:MARK].strip(), ""), 0, MARK)
            console.print(text)
    raise typer.Exit(1 if report.problems else 0)
