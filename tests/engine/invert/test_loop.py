"""The optimisation of embeddings."""

import pytest
import torch

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.engine.invert.dice import MaskTargets
from napari_maskinversion.engine.invert.loop import Descent
from tests.engine.towers import masks


def descent(count=3, **settings):
    start = torch.randn(16, generator=torch.Generator().manual_seed(0))
    regions = Regions.from_masks(masks(count))
    targets = MaskTargets(regions, (64, 64), (64, 64), (4, 4), start)
    return Descent(targets, start, InversionConfig(steps=12, **settings))


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_every_step_is_that_of_pytorchs_adamw(weight_decay):
    ours = descent(learning_rate=0.3, weight_decay=weight_decay)
    oracle = ours.embeddings.clone().requires_grad_()
    theirs = torch.optim.AdamW([oracle], lr=0.3, weight_decay=weight_decay)
    generator = torch.Generator().manual_seed(1)
    for step in range(12):
        # As small as late gradients, where epsilon matters, and as large as the first.
        ours.gradient = torch.randn(3, 16, generator=generator) * 10.0 ** (1 - step)
        oracle.grad = ours.gradient.clone()
        theirs.step()
        ours.update()
        torch.testing.assert_close(ours.embeddings, oracle.detach(), rtol=0, atol=0)


def test_some_masks_can_go_on_alone_and_return():
    """Their moments, embeddings and records are theirs alone."""
    plain, whole = descent(4), descent(4)
    gradients = torch.randn(5, 4, 16, generator=torch.Generator().manual_seed(1))
    rows = torch.tensor([3, 1])
    for gradient in gradients:
        plain.gradient = gradient.clone()
        plain.update()
    for gradient in gradients[:2]:
        whole.gradient = gradient.clone()
        whole.update()
    part = whole.part(rows)
    torch.testing.assert_close(part.targets.weights, whole.targets.weights[rows])
    for gradient in gradients[2:4]:
        whole.gradient = gradient * 0.5
        whole.update()
        part.gradient = gradient[rows].clone()
        part.update()
    whole.adopt(rows, part)
    whole.gradient = gradients[4].clone()
    whole.update()
    torch.testing.assert_close(whole.embeddings[rows], plain.embeddings[rows])
    assert not torch.allclose(whole.embeddings, plain.embeddings, rtol=1e-3)
