"""Print results as a table in the terminal."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ..base.validation import CONTROL
from .columns import columns_of, is_missing
from .results import Results


class PlainConsole(Console):
    """Prints texts of files with their control signs spelled, so that no terminal acts on them."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Do what `rich` does, with a text that has no control sign."""
        return super().render_str(spelled(text), **options)


def spelled(text: str) -> str:
    r"""Return a text with its control signs as letters, such as ``\x1b``."""
    return CONTROL.sub(lambda sign: sign[0].encode("unicode_escape").decode(), text)


def print_results(results: Results) -> None:
    """Print the table of a run to standard output, 120 characters wide if that is a file."""
    PlainConsole(width=None if sys.stdout.isatty() else 120).print(text_table(results))


def text_table(results: Results) -> Table:
    """Return the table of a run for a terminal, without empty columns."""
    info = results.info
    if info.method.inverts:
        method = ""
    else:
        method = f", {info.method.title}"
    table = Table(title=f"{results.count_text}, model {info.model}{method}")
    cells: list[list[str]] = []
    for column in columns_of(info, results.regions, "terminal"):
        values = [column.value(region, info) for region in results.regions]
        if values and all(is_missing(value) or value == "" for value in values):
            continue
        number = column.kind in ("integer", "number")
        table.add_column(column.title, justify="right" if number else "left")
        cells.append([escape(column.text(value)) for value in values])
    for row in zip(*cells, strict=True):
        table.add_row(*row)
    return table
