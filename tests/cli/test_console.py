"""What is printed about long work."""

from __future__ import annotations

import pytest

from napari_maskinversion.cli import console
from napari_maskinversion.cli.console import ProgressBar, left


@pytest.mark.parametrize(
    ("done", "words"),
    [(0.01, ""), (0.5, ", about 60 s left"), (0.1, ", about 9 min left"), (1.0, "")],
)
def test_time_is_left_until_the_end(done: float, words: str) -> None:
    assert left(done, 1.0, 60) == words


def test_a_bar_leaves_nothing_in_a_file(capfd):
    with ProgressBar() as bar:
        bar.show("Images", 1, 2)
    assert capfd.readouterr().err == ""


def test_long_work_is_told_once_a_minute_where_no_terminal_shows_it(capfd, monkeypatch):
    clock = iter([0, 30, 61, 62])
    monkeypatch.setattr(console, "monotonic", lambda: next(clock))
    with ProgressBar(remaining=True) as bar:
        for done in (4, 5, 6):
            bar.show("Images", done, 10)
    assert capfd.readouterr().err == "Images, about 61 s left\n"
