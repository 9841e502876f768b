from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from napari_maskinversion.demo_model.restyle import (
    Restyling,
    bent,
    borrowed,
    restyle_layers,
    restyle_textures,
)
from napari_maskinversion.demo_model.scenes import generator

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
    changed = restyle_textures(discs, generator("train", 1), look)
    assert torch.equal(changed[:, 3], discs[:, 3])
    assert changed.min() >= 0
    assert (changed[:, :3] <= changed[:, 3:]).all()  # colours times alpha
    assert ((changed - discs).abs().amax((1, 2, 3)) > 0.01).float().mean() > 0.5
    torch.testing.assert_close(restyle_textures(discs, generator("train", 1), NEVER), discs)


def test_borrowed_colours_are_those_of_the_other_drawing(discs: Tensor) -> None:
    other = discs[..., ::2, ::2].flip(1)  # alpha comes first now
    other = torch.cat([0.9 * other[:, :1], 0.2 * other[:, :1], 0.4 * other[:, :1], other[:, :1]], 1)
    painted = borrowed(discs, other, generator("train", 1), replace(NEVER, borrowed=1.0))
    assert torch.equal(painted[:, 3], discs[:, 3])
    inside = discs[0, 3] > 0
    mean = painted[:, :3, inside].mean(2)
    torch.testing.assert_close(mean, torch.tensor([[0.9, 0.2, 0.4]]).expand(6, -1))
    same = borrowed(
        discs, discs[..., ::2, ::2], generator("train", 1), replace(NEVER, borrowed=1.0)
    )
    assert (same - discs).abs().max() < 0.1
    assert torch.equal(borrowed(discs, other, generator("train", 1), NEVER), discs)


def test_flat_paint_has_few_colours(discs: Tensor) -> None:
    flat = restyle_textures(discs, generator("train", 2), replace(NEVER, flat=1.0))
    inside = discs[0, 3] > 0
    assert len(discs[0, 0][inside].unique()) > 15
    assert all(len(row[0][inside].unique()) <= 5 for row in flat)


def test_outlines_are_added_or_taken_off(discs: Tensor) -> None:
    rng = generator("train", 3)
    lined = restyle_layers(discs, places(6), rng, replace(NEVER, outlined=1.0))
    before, after = discs[:, 3].sum((1, 2)), lined[:, 3].sum((1, 2))
    assert (after > before + 20).all()
    inside = discs[:, 3:].expand(-1, 4, -1, -1) > 0
    assert torch.equal(lined[inside], discs[inside])
    many = discs.repeat(20, 1, 1, 1)
    some = restyle_layers(many, places(120), rng, replace(NEVER, outlined=0.5))
    sizes = some[:, 3].sum((1, 2))
    assert (sizes > before[0]).any()
    assert (sizes < before[0]).any()


def test_a_cut_hides_one_side_and_leaves_the_middle(discs: Tensor) -> None:
    many = discs.repeat(10, 1, 1, 1)
    cut = restyle_layers(many, places(60), generator("train", 4), replace(NEVER, cut=1.0))
    left = cut[:, 3].sum((1, 2)) / many[:, 3].sum((1, 2))
    assert left.min() > 0.4
    assert left.mean() < 0.9
    assert (cut[:, 3, 15:17, 15:17].amax((1, 2)) > 0.5).all()


def test_bending_is_smooth_and_differs_between_drawings() -> None:
    straight = places(3)
    moved = bent(straight, generator("train", 5), 0.1) - straight
    assert moved.abs().mean() > 0.02
    assert moved.diff(dim=1).abs().max() < 0.1
    assert not torch.allclose(moved[0], moved[1], atol=0.02)
