"""Sets of pictograms, in the colours of emoji."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.drawn.sprites import (
    SEEN_STYLES,
    STYLES,
)
from napari_maskinversion.demo_model.scene_words import find
from research.demo_model.pictograms import PICTOGRAMS, load_drawings
from tests.emoji_sets import write_sets

NAMES = tuple(find(name) for name in ("apple", "key", "crown"))


@pytest.fixture
def sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NAPARI_MASKINVERSION_CACHE", str(tmp_path / "cache"))
    return write_sets(tmp_path / "node_modules", NAMES)


def test_a_pictogram_is_filled_and_takes_the_colours_of_an_emoji_of_its_name(sets: Path) -> None:
    sprites = load_drawings(sets, size=32, names=NAMES, fetch=False)
    emoji, pictograms = sprites[: len(STYLES)], sprites[len(STYLES) :]
    taken = np.array([[bool(one.keys(name)) for name in NAMES] for one in PICTOGRAMS])
    assert taken.sum() > len(taken)
    assert np.array_equal(pictograms[..., 3].any((2, 3)), taken)
    assert (pictograms[..., 0, 0, 3] == 0).all()
    for place, one in enumerate(PICTOGRAMS):
        inside = pictograms[place, taken[place], 16, 16]  # within the ring
        assert (inside[:, 3] == (0 if one.painted else 255)).all()
        for drawing, number in zip(inside, taken[place].nonzero()[0], strict=True):
            lent = [emoji[STYLES.index(style), number, 16, 16, :3] for style in SEEN_STYLES]
            far = [np.abs(drawing[:3].astype(int) - colour).max() for colour in lent]
            assert one.painted or min(far) <= 8  # colours of the sets differ by 150
