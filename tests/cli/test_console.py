"""What is printed about long work."""

from __future__ import annotations

import pytest

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
