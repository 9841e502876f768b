"""Drawings of emoji sets, rendered: one square a style and name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.drawn.sprites import (
    SETS,
    STYLES,
    SpriteError,
    find_sets,
    load_sprites,
)
from napari_maskinversion.demo_model.scene_words import OBJECTS
from tests.emoji_sets import write_sets

NAMES = OBJECTS[:3]


@pytest.fixture
def sets(tmp_path: Path) -> Path:
    return write_sets(tmp_path / "node_modules", NAMES)


def change(sets: Path, style: int, drop: int, alias: str = "") -> None:
    """Take a name's drawings out of a set, or keep them under another name."""
    file = sets / SETS[style].package / "icons.json"
    page = json.loads(file.read_text("utf-8"))
    for icon in NAMES[drop].icons:
        page["icons"][alias or "unused"] = page["icons"].pop(icon)
        if alias:
            page.setdefault("aliases", {})[icon] = {"parent": alias}
    file.write_text(json.dumps(page), "utf-8")


def test_every_name_is_drawn_in_every_style(sets: Path) -> None:
    change(sets, 1, drop=0)
    change(sets, 2, drop=0, alias="renamed")
    sprites = load_sprites(sets, size=16, names=NAMES, fetch=False)
    assert sprites.shape == (len(SETS), 3, 16, 16, 4)
    assert sprites.dtype == np.uint8
    drawn = sprites[..., 3].any((2, 3))
    assert not drawn[1, 0]
    assert drawn.sum() == drawn.size - 1
    # Discs, squares and triangles fill their squares, each in the colour of its set.
    assert (sprites[0, :, :, :, 3].max(1) > 200).mean() > 0.85
    assert len({sprites[style, 1, 8, 8].tobytes() for style in range(6)}) == 6


def test_rendered_drawings_are_kept(sets: Path) -> None:
    first = load_sprites(sets, size=8, names=NAMES, fetch=False)
    (sets / SETS[0].package / "icons.json").unlink()
    np.testing.assert_array_equal(load_sprites(sets, size=8, names=NAMES), first)


def test_a_name_that_no_set_draws_is_refused(sets: Path) -> None:
    with pytest.raises(SpriteError, match=f"No set has a drawing of {OBJECTS[3].name}"):
        load_sprites(sets, size=8, names=OBJECTS[:4], fetch=False)


def test_sets_that_are_not_there_are_named_with_what_to_do(
    sets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_sets(sets) == sets
    (sets / SETS[0].package / "icons.json").unlink()
    with pytest.raises(SpriteError, match=f"has no {SETS[0].package}; name a node_modules"):
        find_sets(sets)
    monkeypatch.delenv("NAPARI_MASKINVERSION_SPRITES", raising=False)
    with pytest.raises(SpriteError, match="npm install .*--sprites"):
        find_sets(fetch=False)


def test_there_are_at_least_six_styles() -> None:
    assert len(SETS) >= 6
    assert len(set(STYLES)) == len(STYLES)
