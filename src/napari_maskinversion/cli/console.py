"""What all commands print with: lines, tables and the progress bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import Any, Final, Self

import typer
from rich.console import JustifyMethod
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from ..base.progress import listening
from ..results.printing import PlainConsole, spelled

INTERRUPTED: Final = 130  # exit code after Ctrl-C
_TELLING: Final = 0.05  # images, or the share of other work
_EVERY: Final = 60.0  # seconds between two lines where no terminal shows a bar
# Tables need room where no terminal says how wide it is.
WIDTH: Final = None if sys.stdout.isatty() else 120


def echo(text: object) -> None:
    """Print a text on standard output, as it is but for control signs."""
    typer.echo(spelled(str(text)))


def say(message: str) -> None:
    """Print one line on standard error."""
    PlainConsole(stderr=True, highlight=False, soft_wrap=True).print(escape(message))


def print_table(
    columns: Iterable[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    *,
    right: Sequence[str] = (),
    whole: str = "",
    last: Sequence[str] | None = None,
) -> None:
    """Print rows on standard output; columns ``right`` hold numbers, ``whole`` is not wrapped.

    A line is below the row ``last``.
    """
    table = Table(title=escape(title))
    for column in columns:
        justify: JustifyMethod = "left"
        if column in right:
            justify = "right"
        table.add_column(escape(column), justify=justify, no_wrap=column == whole)
    for row in rows:
        table.add_row(*(escape(cell) for cell in row), end_section=row == last)
    PlainConsole(width=WIDTH).print(table)


class ProgressBar:
    """A bar on standard error that appears with the first progress and leaves no trace.

    Of long work it tells the time that is left, where no terminal shows it by a line a minute.
    """

    def __init__(self, *columns: ProgressColumn, remaining: bool = False) -> None:
        more = (TimeRemainingColumn(),) if remaining else ()
        self._tells = remaining and not sys.stderr.isatty()
        self._begun = self._told = monotonic()
        console = PlainConsole(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            *(columns or (TaskProgressColumn(),)),
            *more,
            console=console,
            transient=True,
            disable=not console.is_interactive,  # each bar would be an empty line in a file
        )
        self._task: TaskID | None = None
        self._parts: dict[str, TaskID] = {}
        self._note = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    @property
    def shown(self) -> bool:
        """Whether there was any progress."""
        return self._task is not None

    @property
    def tasks(self) -> list[Task]:
        """What is shown, as rich has it."""
        return self._progress.tasks

    def show(self, text: str, done: float = 0.0, total: float = 1.0) -> None:
        """Show a text and how much of the work is done."""
        text = spelled(text)
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task(escape(text), total=total)
        self._progress.update(self._task, description=escape(text), completed=done, total=total)
        time = monotonic()
        if self._tells and time - self._told > _EVERY:
            self._told = time
            say(f"{text}{left(done, total, time - self._begun)}")

    def show_parts(self, shares: Mapping[str, float]) -> None:
        """Show a bar below the first one for each of these names; others go away."""
        for name in [name for name in self._parts if name not in shares]:
            self._progress.remove_task(self._parts.pop(name))
        for name, share in shares.items():
            if name not in self._parts:
                self._parts[name] = self._progress.add_task(escape(spelled(f"  {name}")), total=1.0)
            self._progress.update(self._parts[name], completed=share)

    def say_note(self, text: str) -> None:
        """Print a note above the bar, unless it is empty or the one that was printed last."""
        if text and text != self._note:
            self._progress.console.print(escape(text), highlight=False, soft_wrap=True)
            self._note = text


@contextmanager
def following(
    show: Callable[[ProgressBar, Any], object],
    *columns: ProgressColumn,
    remaining: bool = False,
    stopped: Callable[[], str] = lambda: "Stopped; nothing was written.",
) -> Iterator[ProgressBar]:
    """Show on a bar what the work in a block tells; Ctrl-C ends the program with a line."""
    try:
        with ProgressBar(*columns, remaining=remaining) as bar, listening(partial(show, bar)):
            yield bar
    except KeyboardInterrupt:
        say(stopped())
        raise typer.Exit(INTERRUPTED) from None


def left(done: float, total: float, seconds: float) -> str:
    """Return the time that is left in words, if enough is done to tell; all parts count alike."""
    if done < _TELLING or done >= total:
        return ""
    seconds_left = (total - done) / done * seconds
    if seconds_left < 90:
        words = f"{seconds_left:.0f} s"
    elif seconds_left < 5400:
        words = f"{seconds_left / 60:.0f} min"
    else:
        words = f"{seconds_left / 3600:.1f} h"
    return f", about {words} left"
