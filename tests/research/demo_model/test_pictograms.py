"""Sets of pictograms, in the colours of emoji."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from napari_maskinversion.demo_model.sprites import (
    SEEN_STYLES,
    SETS,
    STYLES,
    UNSEEN_STYLE,
    SpriteError,
    load_sprites,
)
from napari_maskinversion.demo_model.vocabulary import find
from research.demo_model.pictograms import DRAWN_IN, PICTOGRAMS, load_drawings
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


def test_no_pictogram_takes_its_colours_from_the_style_that_is_never_trained_on(
    sets: Path,
) -> None:
    for one in SETS:
        if one.style != UNSEEN_STYLE:
            (sets / one.package / "icons.json").write_text('{"icons": {}}', "utf-8")
    drawings = load_drawings(sets, size=8, names=NAMES, fetch=False)
    assert drawings[STYLES.index(UNSEEN_STYLE)].any()
    assert not drawings[len(STYLES) :].any()


def test_pictograms_are_asked_for_only_where_they_are_used(sets: Path) -> None:
    (sets / PICTOGRAMS[0].package / "icons.json").unlink()
    load_sprites(sets, size=8, names=NAMES, fetch=False)
    with pytest.raises(SpriteError, match=PICTOGRAMS[0].package):
        load_drawings(sets, size=8, names=NAMES, fetch=False)


def test_a_set_of_pictograms_uses_its_own_names_first() -> None:
    sets = {one.style: one for one in PICTOGRAMS}
    grapes, dog, frog = (find(name) for name in ("grapes", "dog", "frog"))
    assert sets["mdi"].keys(grapes) == ("fruit-grapes",)
    assert sets["mdi"].keys(dog) == dog.icons
    assert sets["game-icons"].keys(dog) == ()  # another animal
    assert sets["ph"].keys(frog) == ()  # nothing but what is listed
    assert sets["fa6-solid"].keys(frog) == ("frog",)


def test_drawings_come_from_eighteen_sets() -> None:
    assert len(DRAWN_IN) == len(set(DRAWN_IN)) == 18
    assert sum(len(one.icons) for one in PICTOGRAMS if one.listed) == 151
    assert [one.style for one in PICTOGRAMS if one.painted] == ["icon-park"]
