from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from napari_maskinversion.demo_model.scenes import SceneStyle, compose, generator
from research.demo_model.restyle import STRONG, Restyling

NEVER = Restyling()


@pytest.fixture
def discs() -> Tensor:
    """Six discs on transparent ground, of colours that run from left to right."""
    line = torch.linspace(-1, 1, 32)
    alpha = ((line**2 + line[:, None] ** 2) < 0.5).float().expand(6, 1, 32, 32)
    colour = torch.stack([0.2 + 0.3 * (line + 1) / 2 * k for k in (1, 2, 0.5)])
    return torch.cat([colour[None, :, None] * alpha, alpha], 1)


@pytest.mark.parametrize("change", ["flat", "repainted", "shaded", "textured"])
def test_new_paint_keeps_the_shape(discs: Tensor, change: str) -> None:
    look = replace(NEVER, **{change: 1.0})
    changed = look.paint(discs, generator("train", 1))
    assert torch.equal(changed[:, 3], discs[:, 3])
    assert changed.min() >= 0
    assert (changed[:, :3] <= changed[:, 3:]).all()  # colours times alpha
    assert ((changed - discs).abs().amax((1, 2, 3)) > 0.01).float().mean() > 0.5
    torch.testing.assert_close(NEVER.paint(discs, generator("train", 1)), discs)


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
