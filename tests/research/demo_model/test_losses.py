"""Losses of the training, against slow and obvious ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from napari_maskinversion.demo_model.scenes import DISTRACTOR, NOTHING, generator
from research.demo_model import losses
from research.demo_model.losses import Descent
from research.demo_model.maps import Encoded, encode, legrad_maps
from research.demo_model.model import EMBEDDING_NORM, build_model

PLAIN = Descent(steps=2, reach=0.8, momentum=0.0, soft=0.0)


def slow_descent_loss(
    visual: Any,
    image: Encoded,
    names: Tensor,
    labels: Tensor,
    cover: Tensor,
    queries: Tensor,
    scale: Tensor,
) -> Tensor:
    """The formulas of the stages before: two plain steps, and means over what is asked for."""
    named, nothing = labels >= 0, labels == DISTRACTOR
    asked = named | nothing
    start = EMBEDDING_NORM * F.normalize(image.embedding, dim=-1)
    let = start[:, None].expand(-1, labels.shape[1], -1)
    for _ in range(2):
        maps = losses.min_max(legrad_maps(visual, image, let, queries))
        loss = losses.soft_dice(maps, cover)[asked].sum()
        (slope,) = torch.autograd.grad(loss, let, create_graph=True)
        let = let - 0.4 * slope / slope.square().mean(-1, keepdim=True).add(1e-16).sqrt()
    logits = scale * F.normalize(let, dim=-1) @ names.T
    reached = losses.min_max(legrad_maps(visual, image, let, queries))
    loss = F.cross_entropy(logits[named], labels[named])
    loss = loss + losses.soft_dice(reached, cover)[asked].mean()
    if nothing.any():
        unsure = -logits[nothing].log_softmax(-1).mean(-1) - math.log(len(names))
        loss = loss + 0.25 * unsure.mean()
    return loss + losses.fading(visual, image, queries).mean()


@pytest.mark.parametrize("distractor", [DISTRACTOR, NOTHING])
def test_two_plain_steps_are_those_of_the_stages_before(distractor: int) -> None:
    rng = generator("train", 5)
    visual = build_model(3).visual
    image = encode(visual, torch.rand(4, 3, 64, 64, generator=rng))
    names = F.normalize(torch.randn(6, 128, generator=rng), dim=-1)
    labels = torch.tensor([[0, 5, -1], [1, -1, distractor], [2, distractor, -1], [3, 4, 0]])
    cover = losses.coverage(torch.rand(4, 3, 64, 64, generator=rng), image.grid)
    rest = names, labels, cover, torch.arange(8), torch.tensor(14.0)

    def slopes(ask: Callable[[Encoded], Tensor]) -> tuple[Tensor, list[Tensor]]:
        leaf = image.detached()
        loss = ask(leaf)
        found_slopes = torch.autograd.grad(
            loss, leaf.tensors, allow_unused=True, materialize_grads=True
        )
        return loss.detach(), list(found_slopes)

    slow, wanted = slopes(lambda leaf: slow_descent_loss(visual, leaf, *rest))
    fast, got = slopes(lambda leaf: losses.descent_loss(visual, leaf, *rest, PLAIN))
    torch.testing.assert_close(fast, slow, rtol=5e-6, atol=0)
    for a, b in zip(got, wanted, strict=True):
        assert (a - b).norm() <= 1e-4 * b.norm()
    assert max(float(b.norm()) for b in wanted) > 0


def test_a_descent_is_a_plain_loop_over_its_steps() -> None:
    aim = torch.tensor([3.0, -1.0, 0.5, 0.0])
    descent = Descent(steps=3, reach=0.9, momentum=0.5, soft=0.25)
    x, moving = [0.0] * 4, [0.0] * 4
    for step in range(1, 4):
        slope = [xi - ai for xi, ai in zip(x, aim.tolist(), strict=True)]
        length = math.sqrt(sum(s * s for s in slope) / 4)
        for i, s in enumerate(slope):
            u = s / length
            u = u / math.sqrt(u * u + 0.25)
            moving[i] = 0.5 * moving[i] + 0.5 * u
            x[i] -= 0.3 * moving[i] / (1 - 0.5**step)
    reached = descent.run(torch.zeros(1, 1, 4), lambda let: let - aim)
    torch.testing.assert_close(reached[0, 0], torch.tensor(x))


def test_no_image_dominates_a_bounded_gradient_and_small_ones_stay() -> None:
    visual = build_model(3).visual
    image = encode(visual, torch.rand(5, 3, 64, 64, generator=generator("train", 7)))
    size = torch.tensor([1.0, 1.1, 0.9, 1000.0, 1.0])

    def ask(leaf: Encoded) -> Tensor:
        return (size * leaf.embedding.sum(1)).sum()

    surrogate, value = losses.bounded(ask, image)
    (slope,) = torch.autograd.grad(surrogate, image.embedding)
    torch.testing.assert_close(slope.amax(1), torch.tensor([1.0, 1.1, 0.9, 3.0, 1.0]))
    assert value == ask(image)


def test_map_supervision_prefers_the_right_map() -> None:
    cover = torch.zeros(1, 2, 4, 4)
    cover[0, 0, :2], cover[0, 1, 2:] = 1, 1
    assert losses.soft_dice(cover, cover).max() < 1e-6
    assert losses.soft_dice(1 - cover, cover).min() > 0.9
    scaled = losses.min_max(3 * cover + 2)
    torch.testing.assert_close(scaled, cover)
    assert torch.isfinite(losses.min_max(torch.ones(1, 4, 4))).all()


def test_the_name_loss_shares_the_target_among_those_present() -> None:
    names = torch.eye(4)
    labels = torch.tensor([[0, 2, -1]])
    torch.testing.assert_close(losses.presence(labels, 4), torch.tensor([[1.0, 0, 1, 0]]))
    both = torch.tensor([[1.0, 0, 1, 0]])
    scale = torch.tensor(50.0)
    assert losses.name_loss(both, names, labels, scale) == pytest.approx(math.log(2), abs=1e-3)
    assert losses.name_loss(names[:1], names, labels, scale) > 10
