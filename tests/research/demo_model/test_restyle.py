from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from napari_maskinversion.demo_model.scenes import SceneStyle, compose, generator
from research.demo_model.restyle import STRONG, Restyling
from tests.demo_model.test_scenes import COLOURS, PLAIN

NEVER = Restyling()


@pytest.fixture
def discs() -> Tensor:
    """Six discs on transparent ground, of colours that run from left to right."""
    line = torch.linspace(-1, 1, 32)
    alpha = ((line**2 + line[:, None] ** 2) < 0.5).float().expand(6, 1, 32, 32)
    colour = torch.stack([0.2 + 0.3 * (line + 1) / 2 * k for k in (1, 2, 0.5)])
    return torch.cat([colour[None, :, None] * alpha, alpha], 1)


def places(count: int) -> Tensor:
    line = (torch.arange(32) + 0.5) / 16 - 1
    ys, xs = torch.meshgrid(line, line, indexing="ij")
    return torch.stack([xs, ys], -1).expand(count, -1, -1, -1)


@pytest.mark.parametrize("change", ["flat", "repainted", "shaded", "textured"])
def test_new_paint_keeps_the_shape(discs: Tensor, change: str) -> None:
    look = replace(NEVER, **{change: 1.0})
    changed = look.paint(discs, generator("train", 1))
    assert torch.equal(changed[:, 3], discs[:, 3])
    assert changed.min() >= 0
    assert (changed[:, :3] <= changed[:, 3:]).all()  # colours times alpha
    assert ((changed - discs).abs().amax((1, 2, 3)) > 0.01).float().mean() > 0.5
    torch.testing.assert_close(NEVER.paint(discs, generator("train", 1)), discs)


def test_borrowed_colours_are_those_of_the_other_drawing(discs: Tensor) -> None:
    other = discs[..., ::2, ::2].flip(1)  # alpha comes first now
    other = torch.cat([0.9 * other[:, :1], 0.2 * other[:, :1], 0.4 * other[:, :1], other[:, :1]], 1)
    painted = replace(NEVER, borrowed=1.0).borrow(discs, other, generator("train", 1))
    assert torch.equal(painted[:, 3], discs[:, 3])
    inside = discs[0, 3] > 0
    mean = painted[:, :3, inside].mean(2)
    torch.testing.assert_close(mean, torch.tensor([[0.9, 0.2, 0.4]]).expand(6, -1))
    look = replace(NEVER, borrowed=1.0)
    same = look.borrow(discs, discs[..., ::2, ::2], generator("train", 1))
    assert (same - discs).abs().max() < 0.1
    assert torch.equal(NEVER.borrow(discs, other, generator("train", 1)), discs)


def test_outlines_are_added_or_taken_off(discs: Tensor) -> None:
    rng = generator("train", 3)
    lined = replace(NEVER, outlined=1.0).outline(discs, places(6), rng)
    before, after = discs[:, 3].sum((1, 2)), lined[:, 3].sum((1, 2))
    assert (after > before + 20).all()
    inside = discs[:, 3:].expand(-1, 4, -1, -1) > 0
    assert torch.equal(lined[inside], discs[inside])
    many = discs.repeat(20, 1, 1, 1)
    some = replace(NEVER, outlined=0.5).outline(many, places(120), rng)
    sizes = some[:, 3].sum((1, 2))
    assert (sizes > before[0]).any()
    assert (sizes < before[0]).any()


def test_a_cut_hides_one_side_and_leaves_the_middle(discs: Tensor) -> None:
    many = discs.repeat(10, 1, 1, 1)
    cut = replace(NEVER, cut=1.0).outline(many, places(60), generator("train", 4))
    left = cut[:, 3].sum((1, 2)) / many[:, 3].sum((1, 2))
    assert left.min() > 0.4
    assert left.mean() < 0.9
    assert (cut[:, 3, 15:17, 15:17].amax((1, 2)) > 0.5).all()


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
    assert edges(replace(plain, restyling=Restyling(varied=1.0))).min() > 0.2


def test_restyled_scenes_keep_their_masks_on_the_objects(shapes: list[Tensor]) -> None:
    # Other colours need another random number, after which all others differ.
    look = SceneStyle(restyling=replace(STRONG, borrowed=0.0, varied=0.0))
    counts = torch.full((16,), 3)
    plain, changed = (
        compose(shapes, generator("train", 10), counts, (64, 64), look=s)
        for s in (SceneStyle(), look)
    )
    assert torch.equal(plain.labels, changed.labels)
    both = ((plain.visible > 0.5) & (changed.visible > 0.5)).sum()
    assert both / (plain.visible > 0.5).sum() > 0.7
    assert changed.visible.sum(1).max() <= 1 + 1e-5
