"""Drawings of emoji sets, rendered: one square a style and name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from napari_maskinversion.demo_model.sprites import (
    DRAWN_IN,
    PICTOGRAMS,
    SEEN_STYLES,
    SETS,
    STYLES,
    UNSEEN_STYLE,
    SpriteError,
    find_sets,
    load_sprites,
)
from napari_maskinversion.demo_model.vocabulary import OBJECTS, find
from tests.emoji_sets import BODIES, RING, write_sets

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


def test_a_pictogram_is_filled_and_takes_the_colours_of_an_emoji_of_its_name(sets: Path) -> None:
    sprites = load_sprites(sets, size=32, names=NAMES, styles=DRAWN_IN, fetch=False)
    emoji, pictograms = sprites[: len(STYLES)], sprites[len(STYLES) :]
    assert (pictograms[..., 16, 16, 3] == 255).all()  # within the ring
    assert (pictograms[..., 0, 0, 3] == 0).all()
    lent = {style: emoji[i, :, 16, 16, :3] for i, style in enumerate(STYLES)}
    for number in range(len(NAMES)):
        shown = [lent[style][number] for style in SEEN_STYLES]
        for drawing in pictograms[:, number]:
            far = [np.abs(drawing[16, 16, :3].astype(int) - colour).max() for colour in shown]
            assert min(far) <= 8  # colours of the sets differ by 150


def test_no_pictogram_takes_its_colours_from_the_style_that_is_never_trained_on(
    sets: Path,
) -> None:
    for one in SETS:
        if one.style != UNSEEN_STYLE:
            (sets / one.package / "icons.json").write_text('{"icons": {}}', "utf-8")
    styles = (*STYLES, PICTOGRAMS[0].style)
    sprites = load_sprites(sets, size=8, names=NAMES, styles=styles, fetch=False)
    assert sprites[STYLES.index(UNSEEN_STYLE)].any()
    assert not sprites[-1].any()


def test_pictograms_are_asked_for_only_where_they_are_used(sets: Path) -> None:
    (sets / PICTOGRAMS[0].package / "icons.json").unlink()
    load_sprites(sets, size=8, names=NAMES, fetch=False)
    with pytest.raises(SpriteError, match=PICTOGRAMS[0].package):
        load_sprites(sets, size=8, names=NAMES, styles=(PICTOGRAMS[0].style,), fetch=False)


def test_a_set_of_pictograms_uses_its_own_names_first(sets: Path) -> None:
    mdi = next(s for s in PICTOGRAMS if s.style == "mdi")
    file = sets / mdi.package / "icons.json"
    named = find("grapes")
    bodies = {icon: {"body": ""} for icon in named.icons} | {"fruit-grapes": {"body": RING}}
    page: dict[str, object] = {"icons": bodies, "width": 16, "height": 16}
    file.write_text(json.dumps(page), "utf-8")
    page["icons"] = {icon: {"body": BODIES[0].format("#c33")} for icon in named.icons}
    (sets / SETS[0].package / "icons.json").write_text(json.dumps(page), "utf-8")
    styles = (SETS[0].style, "mdi")
    sprites = load_sprites(sets, size=8, names=(named,), styles=styles, fetch=False)
    assert sprites[1, 0].any()


def test_there_are_at_least_six_styles() -> None:
    assert len(SETS) >= 6
    assert len(set(STYLES)) == len(STYLES)
