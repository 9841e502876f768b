from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from napari_maskinversion.demo_model.backgrounds import MEASURING, TRAINING, varied
from napari_maskinversion.demo_model.restyle import STRONG
from napari_maskinversion.demo_model.scenes import (
    DISTRACTOR,
    SPLITS,
    SceneStyle,
    compose,
    generator,
)

PLAIN = SceneStyle(turn=0.3, colour=0.0, grain=0.0, contrast=0.0)
COLOURS = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1], [1, 0, 1]]).float()


@pytest.mark.parametrize("size", [(48, 48), (40, 64), (64, 40)])
def test_a_mask_is_where_its_object_shows(shapes: list[Tensor], size: tuple[int, int]) -> None:
    counts = torch.tensor([1, 2, 3, 4, 5])
    scene = compose(shapes, generator("train", 3), counts, size, look=PLAIN)
    assert scene.images.shape == (5, 3, *size)
    for b, count in enumerate(counts.tolist()):
        assert (scene.labels[b] >= 0).sum() == count
        for m in range(5):
            mask = scene.visible[b, m] > 0.999
            if m >= count:
                assert not mask.any()
                continue
            assert mask.sum() > 20
            shown = scene.images[b][:, mask]
            wanted = COLOURS[scene.labels[b, m]][:, None].expand_as(shown)
            torch.testing.assert_close(shown, wanted, atol=0.02, rtol=0)


def test_visible_shares_never_exceed_the_pixel(shapes: list[Tensor]) -> None:
    scene = compose(shapes, generator("train", 4), torch.full((16,), 5), (48, 48))
    total = scene.visible.sum(1)
    assert total.max() <= 1 + 1e-5
    assert scene.visible.min() >= 0
    # otherwise the cover of one object by another is not put to the test
    alone = compose(shapes, generator("train", 4), torch.full((16,), 5), (48, 48), look=PLAIN)
    assert ((alone.visible > 0.3).sum(1) > 1).any()


def test_names_within_a_scene_differ(shapes: list[Tensor]) -> None:
    scene = compose(shapes, generator("train", 5), torch.full((64,), 5), (32, 32))
    assert all(len(set(row)) == 5 for row in scene.labels.tolist())


def test_the_seed_decides_everything(shapes: list[Tensor]) -> None:
    counts = torch.tensor([1, 3, 2])
    first, again, other = (
        compose(shapes, generator("train", seed), counts, (48, 48)) for seed in (7, 7, 8)
    )
    for field in ("images", "visible", "labels"):
        torch.testing.assert_close(getattr(first, field), getattr(again, field), rtol=0, atol=0)
    assert (first.images - other.images).abs().mean() > 0.05


def test_the_global_generator_is_neither_used_nor_moved(shapes: list[Tensor]) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = compose(shapes, generator("train", 1), torch.tensor([2]), (32, 32))
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(2)
    again = compose(shapes, generator("train", 1), torch.tensor([2]), (32, 32))
    assert torch.equal(first.images, again.images)


def test_a_larger_canvas_shows_the_same_scene(shapes: list[Tensor]) -> None:
    small, large = (
        compose(shapes, generator("sample", 3), torch.tensor([3]), (s, s), look=PLAIN)
        for s in (64, 256)
    )
    reduced = torch.nn.functional.avg_pool2d(large.visible, 4)
    assert ((reduced > 0.5) == (small.visible > 0.5)).float().mean() > 0.97


def test_the_splits_cannot_meet() -> None:
    measured = ("train", "validation", "test")
    starts = [SPLITS[split] for split in measured]
    steps = 10_000_000 * 100  # a hundred seeds of training, ten million steps each
    assert np.diff(starts).min() > steps
    assert max(starts) + steps < 1 << 32  # more than a CPU's generator looks at
    first = {float(torch.rand(1, generator=generator(split, 5))) for split in measured}
    assert len(first) == 3


def test_a_style_without_a_drawing_is_never_drawn_from(shapes: list[Tensor]) -> None:
    two = [torch.cat([level, level]) for level in shapes]
    for level in two:
        level[1, :3] = 0  # the second style lacks three of six names
    scene = compose(two, generator("train", 6), torch.full((40,), 2), (48, 48), look=PLAIN)
    assert (scene.visible.amax((2, 3)) > 0.99).all()


def test_distractors_are_discs_of_background(shapes: list[Tensor]) -> None:
    look = SceneStyle(distractors=1.0)
    scene = compose(shapes, generator("train", 7), torch.full((32,), 2), (64, 64), look=look)
    assert scene.labels.shape == (32, 3)
    asked = scene.labels[:, 2] == DISTRACTOR
    assert asked.float().mean() > 0.8
    disc, objects = scene.visible[asked, 2], scene.visible[asked, :2].amax(1)
    assert set(disc.unique().tolist()) == {0.0, 1.0}
    assert (disc * objects).max() < 0.06
    assert (disc.mean((1, 2)) > 0.009).all()


def test_backgrounds_for_measuring_were_never_trained_on(shapes: list[Tensor]) -> None:
    assert not set(TRAINING) & set(MEASURING)
    look = SceneStyle(photographs=MEASURING, pictured=1.0, grain=0.0)
    plain, pictured = (
        compose(shapes, generator("test", 8), torch.tensor([1, 1]), (64, 64), look=style)
        for style in (SceneStyle(grain=0.0), look)
    )
    assert plain.images.shape == pictured.images.shape
    assert not torch.equal(plain.images, pictured.images)


def test_a_users_photograph_lies_behind_the_objects(shapes: list[Tensor], tmp_path: Path) -> None:
    file = tmp_path / "violet.png"
    Image.new("RGB", (90, 70), (128, 0, 255)).save(file)
    look = replace(PLAIN, photographs=(str(file),), pictured=1.0)
    scene = compose(shapes, generator("train", 4), torch.tensor([1, 2]), (48, 64), look=look)
    behind = scene.images.permute(0, 2, 3, 1)[scene.visible.sum(1) == 0]
    assert len(behind) > 1000
    assert torch.allclose(behind, torch.tensor([128 / 255, 0.0, 1.0]), atol=1e-5)


@pytest.fixture
def greys() -> Tensor:
    """Backgrounds of one grey each, from black to white."""
    return torch.linspace(0, 1, 40)[:, None, None, None].expand(-1, 3, 32, 48).clone()


def test_no_share_leaves_backgrounds_as_they_are(greys: Tensor) -> None:
    assert torch.equal(varied(generator("train", 1), greys.clone(), 0.0), greys)


def test_a_share_of_the_backgrounds_is_changed_and_the_seed_says_how(greys: Tensor) -> None:
    first, again = (varied(generator("train", 2), greys.clone(), 0.2) for _ in range(2))
    assert torch.equal(first, again)
    assert 0 <= first.min() <= first.max() <= 1
    same = (first == greys).flatten(1).all(1).float().mean()
    assert 0.8**3 - 0.2 < same < 0.8**3 + 0.2


def test_each_change_of_backgrounds_is_seen(greys: Tensor) -> None:
    images = varied(generator("train", 3), greys.clone(), 0.2)
    colours = [len(image.flatten(1).unique(dim=1).T) for image in images]
    # Flat images keep one colour if it is exchanged, have two as halves, and many with discs.
    assert sorted({min(number, 3) for number in colours}) == [1, 2, 3]
    flat = [image[:, 0, 0] for image, number in zip(images, colours, strict=True) if number == 1]
    assert any(colour.max() - colour.min() > 0.02 for colour in flat)
    assert any(colour.max() - colour.min() == 0 for colour in flat)


def test_varied_backgrounds_lie_behind_the_objects(shapes: list[Tensor]) -> None:
    def edges(look: SceneStyle) -> Tensor:
        """Largest step between neighbours in each background; objects are as they were drawn."""
        counts = torch.ones(20, dtype=torch.long)
        scene = compose(shapes, generator("train", 4), counts, (48, 48), look=look)
        steps = scene.images.diff(dim=3).abs().amax(1)
        for image, mask, label in zip(
            scene.images, scene.visible[:, 0], scene.labels[:, 0], strict=True
        ):
            assert (image[:, mask > 0.99] - COLOURS[label][:, None]).abs().max() < 0.02
        empty = scene.visible[:, 0] == 0
        return torch.where(empty[:, :, 1:] & empty[:, :, :-1], steps, 0).amax((1, 2))

    plain = replace(PLAIN, turn=0.0, upside_down=0.0)
    assert edges(plain).max() < 0.1
    assert edges(replace(plain, varied=1.0)).min() > 0.2


def test_odd_colours_keep_the_shape(shapes: list[Tensor]) -> None:
    plain, odd = (
        compose(shapes, generator("test", 9), torch.ones(24, dtype=torch.long), (48, 48), look=s)
        for s in (SceneStyle(), SceneStyle(odd=1.0))
    )
    assert plain.visible.shape == odd.visible.shape
    grey = odd.images.sub(odd.images.mean(1, keepdim=True)).abs().amax(1)
    inside = odd.visible[:, 0] > 0.99
    colourless = [g[i].median() < 0.08 for g, i in zip(grey, inside, strict=True)]
    assert 2 <= sum(bool(c) for c in colourless) <= 20


def test_a_stranger_takes_the_place_of_an_object_and_has_no_name(shapes: list[Tensor]) -> None:
    look = SceneStyle(strangers=1.0, turn=0.3, colour=0.0, grain=0.0, contrast=0.0, apart=0.9)
    counts = torch.tensor([1, *[3] * 31])
    scene = compose(shapes, generator("train", 9), counts, (64, 64), look=look, named=4)
    assert (scene.labels[0] >= 0).sum() == 1  # never alone
    asked = scene.labels[1:] == DISTRACTOR
    assert (asked.sum(1) == 1).all()
    assert scene.labels.max() <= 3
    mask = scene.visible[1:][asked] > 0.999
    shown = [scene.images[1:][b][:, m].mean(1) for b, m in enumerate(mask) if m.sum() > 20]
    gaps = torch.stack([(COLOURS[4:] - colour).abs().amax(1).amin() for colour in shown])
    assert gaps.max() < 0.02  # one of the two that have no name


def test_restyled_scenes_keep_their_masks_on_the_objects(shapes: list[Tensor]) -> None:
    # Other colours need another random number, after which all others differ.
    look = SceneStyle(restyling=replace(STRONG, borrowed=0.0), photographs=())
    counts = torch.full((16,), 3)
    plain, changed = (
        compose(shapes, generator("train", 10), counts, (64, 64), look=s)
        for s in (SceneStyle(), look)
    )
    assert torch.equal(plain.labels, changed.labels)
    both = ((plain.visible > 0.5) & (changed.visible > 0.5)).sum()
    assert both / (plain.visible > 0.5).sum() > 0.7
    assert changed.visible.sum(1).max() <= 1 + 1e-5
