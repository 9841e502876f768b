"""The rule by which the drawn names are chosen, on made-up drawings in five sets."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from napari_maskinversion.demo_model.choice import alike, choose
from napari_maskinversion.demo_model.vocabulary import CANDIDATES, CHOSEN, OBJECTS, Name

NAMES = tuple(Name(name=n, group="things") for n in ("disc", "bar", "scribble", "rare", "tree"))


@pytest.fixture
def drawings() -> NDArray[np.uint8]:
    """Disc, bar and tree alike in six sets, scribble different in each, rare in two only."""
    rng = np.random.default_rng(1)
    made = np.zeros((6, 5, 32, 32, 4), np.uint8)
    ys, xs = np.mgrid[-1:1:32j, -1:1:32j]
    for sheet in made:
        for name, area in ((0, ys**2 + xs**2 < 0.8), (1, abs(ys) < 0.3), (4, abs(xs) < ys)):
            sheet[name][area] = (*rng.integers(90, 160, 3), 255)
        side = rng.random((4, 4)) < 0.5
        sheet[2][np.kron(side, np.ones((8, 8), bool))] = (*rng.integers(0, 255, 3), 255)
    made[:2, 3] = (250, 0, 0, 255)
    return made


def test_drawings_that_are_told_from_all_others_are_counted(drawings: NDArray[np.uint8]) -> None:
    sets, told = alike(drawings)
    assert sets.tolist() == [6, 6, 6, 2, 6]
    assert told[[0, 1, 4]].tolist() == [6, 6, 6]
    assert told[2] < 5


def test_names_are_chosen_that_most_sets_draw_alike(drawings: NDArray[np.uint8]) -> None:
    assert choose(NAMES, drawings, frozenset()) == ("disc", "bar")  # a tree covers palm trees
    assert choose(NAMES, drawings, frozenset({"scribble"})) == ("disc", "bar", "scribble")


def test_the_chosen_names_are_candidates_in_their_order() -> None:
    candidates = [n.name for n in OBJECTS[:CANDIDATES]]
    assert [n for n in candidates if n in CHOSEN] == list(CHOSEN)
    assert 40 <= len(CHOSEN) <= 56
