"""The optimiser of the inversion."""

from __future__ import annotations

import pytest
import torch

from napari_maskinversion.engine.invert.adamw import AdamW


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_every_step_is_pytorchs(weight_decay):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3, 16, generator=generator)
    oracle = values.clone().requires_grad_()
    theirs = torch.optim.AdamW([oracle], lr=0.3, weight_decay=weight_decay)
    ours = AdamW(values, learning_rate=0.3, weight_decay=weight_decay)
    for step in range(12):
        # As small as gradients of settled masks, where epsilon matters, and as large as the first.
        gradient = torch.randn(3, 16, generator=generator) * 10.0 ** (1 - step)
        oracle.grad = gradient
        theirs.step()
        ours.step(gradient)
        torch.testing.assert_close(values, oracle.detach(), rtol=0, atol=0)


def test_some_rows_may_go_on_apart_and_come_back():
    generator = torch.manual_seed(0)
    values = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    gradients = torch.randn(5, 4, 6, generator=generator, dtype=torch.float64)
    settings = {"learning_rate": 0.1, "weight_decay": 0.02}
    expected, together = values.clone(), values.clone()
    plain, other = AdamW(expected, **settings), AdamW(together, **settings)
    for gradient in gradients:
        plain.step(gradient)
    for gradient in gradients[:2]:
        other.step(gradient)
    rows = torch.tensor([3, 1])
    apart = together[rows].clone()
    part = other.part(rows, apart)
    for gradient in gradients[2:4]:
        other.step(gradient * 0.5)
        part.step(gradient[rows])
    other.adopt(rows, part)
    other.step(gradients[4])
    torch.testing.assert_close(together[rows], expected[rows])
    assert not torch.allclose(together, expected)
