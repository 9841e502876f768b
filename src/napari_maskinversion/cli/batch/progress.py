"""Progress of a batch: all images, and each that is being computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from ...batch.executors import TaskExecutor, Work
from ...batch.image_task import ImageTask, Report
from ...batch.running import Underway, run_batch
from ..console import ProgressBar, ProgressLines


def follow(
    tasks: Sequence[ImageTask],
    executor: TaskExecutor,
    work: Work,
    on_report: Callable[[Report, BatchProgress], object],
    *,
    title: str = "Images",
) -> None:
    """Do tasks and show how far they are; ``on_report`` is called with each one that is done."""
    with BatchProgress(len(tasks), title) as progress:
        for news in run_batch(tasks, executor, work):
            if isinstance(news, Underway):
                progress.show(news)
            else:
                progress.done += 1
                on_report(news, progress)
                progress.show(Underway(executor.underway()))


class BatchProgress:
    """A bar for all images and one for each that was begun; lines where there is no terminal."""

    def __init__(self, total: int, title: str) -> None:
        self.done = 0
        self._total, self._title = total, title
        self._bar = ProgressBar(remaining=True)
        self._lines = ProgressLines()

    def __enter__(self) -> Self:
        self._bar.show(self._text, 0, self._total)
        return self

    def __exit__(self, *error: Any) -> None:
        self._bar.__exit__(*error)

    @property
    def _text(self) -> str:
        return f"{self._title}: {self.done} of {self._total}"

    def show(self, news: Underway) -> None:
        """Show what is done at the moment."""
        parts = sum(news.shares.values())
        self._bar.show(self._text, self.done + parts, self._total)
        self._bar.show_parts(news.shares)
        self._bar.say_note(news.note)
        self._lines.show(self._text, self.done + parts, self._total)

    def say(self, text: str) -> None:
        """Print a line above the bars."""
        self._bar.say_note(text)
