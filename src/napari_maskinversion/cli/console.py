"""What all commands print with."""

from __future__ import annotations

import sys
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

INTERRUPTED: Final = 130  # exit code after Ctrl-C
# Tables need room where no terminal says how wide it is.
WIDTH: Final = None if sys.stdout.isatty() else 120


def say(message: str) -> None:
    """Print one line on standard error."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(escape(message))


def print_table(table: Table) -> None:
    """Print a table on standard output."""
    Console(width=WIDTH).print(table)
