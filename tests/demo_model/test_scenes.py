from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from napari_maskinversion.demo_model.backgrounds import (
    MEASURING,
    TRAINING,
    crop_backgrounds,
    crops_together,
    photographs,
)
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


@pytest.mark.parametrize("size", [(64, 64), (48, 96), (700, 20)])
def test_crops_together_are_those_one_by_one(size: tuple[int, int]) -> None:
    photos = photographs(TRAINING[:4] + MEASURING[:2])
    one_by_one = crop_backgrounds(generator("train", 11), photos, 24, size)
    together = crops_together(generator("train", 11), photos, 24, size)
    torch.testing.assert_close(together, one_by_one, atol=1e-4, rtol=0)
    assert one_by_one.std((1, 2, 3)).min() > 0.01
