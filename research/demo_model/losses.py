"""Training losses: names, captions, maps, and the direction of an inversion.

No shape depends on a value, so that a GPU can replay them as graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from napari_maskinversion.demo_model.scenes import DISTRACTOR

from .maps import Encoded, attention_gradients, legrad_maps
from .model import EMBEDDING_NORM


def name_loss(embedding: Tensor, names: Tensor, labels: Tensor, scale: Tensor) -> Tensor:
    """Compute the cross-entropy of images (B, e) over names (N, e), uniform over those present.

    ``labels`` is (B, M), negative where a slot shows no name.
    """
    target = presence(labels, len(names))
    target = target / target.sum(1, keepdim=True).clamp(min=1)
    logits = scale * F.normalize(embedding, dim=-1) @ names.T
    return -(target * logits.log_softmax(-1)).sum(1).mean()


def presence(labels: Tensor, names: int) -> Tensor:
    """Return (B, names) floats, 1 where a name is in the scene."""
    every = torch.arange(names, device=labels.device)
    return (labels[..., None] == every).any(1).float()


def caption_loss(embedding: Tensor, captions: Tensor, scale: Tensor) -> Tensor:
    """Compute CLIP's symmetric contrastive loss of images (B, e) and captions (B, e)."""
    logits = scale * F.normalize(embedding, dim=-1) @ F.normalize(captions, dim=-1).T
    right = torch.arange(len(logits), device=logits.device)
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2


def coverage(visible: Tensor, grid: tuple[int, int]) -> Tensor:
    """Average masks (B, M, H, W) over each token of a grid."""
    return F.adaptive_avg_pool2d(visible, grid)


def soft_dice(maps: Tensor, cover: Tensor) -> Tensor:
    """Compute the soft Dice loss per map, (..., H, W) to (...)."""
    both = (maps * cover).sum((-2, -1))
    return 1 - (2 * both + 1) / (maps.sum((-2, -1)) + cover.sum((-2, -1)) + 1)


def min_max(maps: Tensor) -> Tensor:
    """Scale every map to 0..1."""
    low = maps.amin((-2, -1), keepdim=True)
    return (maps - low) / (maps.amax((-2, -1), keepdim=True) - low).clamp(min=1e-12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """How training inverts: these steps move an embedding almost as ten of AdamW do."""

    steps: int = 4
    reach: float = 0.95  # length of all steps per coordinate
    momentum: float = 0.5
    soft: float = 0.25  # of a step's softened sign u / sqrt(u^2 + soft); 0 leaves u as it is

    def run(self, start: Tensor, slope_at: Callable[[Tensor], Tensor]) -> Tensor:
        """Descend from embeddings (B, M, e) along slopes over their root mean square."""
        moved, moving = start, torch.zeros_like(start)
        for step in range(1, self.steps + 1):
            slope = slope_at(moved)
            u = slope / slope.square().mean(-1, keepdim=True).add(1e-16).sqrt()
            if self.soft:
                u = u * (u.square() + self.soft).rsqrt()
            moving = self.momentum * moving + (1 - self.momentum) * u
            moved = moved - self.reach / self.steps / (1 - self.momentum**step) * moving
        return moved


def descent_loss(
    visual: Any,
    image: Encoded,
    names: Tensor,
    labels: Tensor,
    cover: Tensor,
    queries: Tensor,
    scale: Tensor,
    descent: Descent,
) -> Tensor:
    """Classify embeddings after a differentiable descent on each object's mask.

    The resulting maps should cover the masks (soft Dice). A distractor's embedding should be
    equally far from all names. The image embedding, where every inversion starts, should have a map
    at all: behind its ReLU no descent could bring it back.
    """
    named, nothing = (labels >= 0).float(), (labels == DISTRACTOR).float()
    asked = named + nothing

    def maps(let: Tensor) -> Tensor:
        return min_max(legrad_maps(visual, image, let, queries))

    def slope_at(let: Tensor) -> Tensor:
        if not let.requires_grad:
            let = let.requires_grad_(True)
        loss = (soft_dice(maps(let), cover) * asked).sum()
        (slope,) = torch.autograd.grad(loss, let, create_graph=True)
        return slope

    start = EMBEDDING_NORM * F.normalize(image.embedding, dim=-1)
    let = descent.run(start[:, None].expand(-1, labels.shape[1], -1), slope_at)
    shares = (scale * F.normalize(let, dim=-1) @ names.T).log_softmax(-1)
    entropy = -shares.gather(-1, labels.clamp(min=0)[..., None])[..., 0]
    unsure = -shares.mean(-1) - math.log(len(names))
    return (
        _mean(entropy, named)
        + _mean(soft_dice(maps(let), cover), asked)
        + 0.25 * _mean(unsure, nothing)
        + fading(visual, image, queries).mean()
    )


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    """Return the mean of values where the weight is 1, 0 if that is nowhere."""
    return (values * weight).sum() / weight.sum().clamp(min=1)


def fading(visual: Any, image: Encoded, queries: Tensor, *, least: float = 0.3) -> Tensor:
    """Return how much the maps of the images' own embeddings fade behind their ReLU, (B,), 0..1.

    0 where the positive ones make up a share of ``least`` of the attention gradients' absolute sum.
    That sum counts as constant: a map that is gone altogether still has a slope.
    """
    gradients = attention_gradients(visual, image, image.embedding[:, None], queries).flatten(1)
    net = gradients.sum(1) / gradients.detach().abs().sum(1).clamp(min=1e-20)
    return (1 - (1 + net) / 2 / least).clamp(min=0)


def bounded(
    ask: Callable[[Encoded], Tensor], image: Encoded, *, most: float = 3.0
) -> tuple[Tensor, Tensor]:
    """Return a scalar whose gradient by an encoding is that of a loss, bounded; and the loss.

    Second derivatives of nearly flat maps are huge. Each image's gradient is cut at `most` times
    the median over the images; weights inside the map's formula count as constants.
    """
    leaf = image.detached()
    loss = ask(leaf)
    slopes = torch.autograd.grad(loss, leaf.tensors, allow_unused=True, materialize_grads=True)
    slopes = tuple(s.nan_to_num(0.0, 0.0, 0.0) for s in slopes)
    norms = torch.stack([s.flatten(1).norm(dim=1) for s in slopes]).norm(dim=0)
    middle = norms.sort().values[(len(norms) - 1) // 2]
    factor = (most * middle / norms.clamp(min=1e-20)).clamp(max=1.0)
    surrogate = torch.zeros((), device=loss.device)
    for tensor, slope in zip(image.tensors, slopes, strict=True):
        cut = slope * factor.reshape(-1, *[1] * (slope.ndim - 1))
        surrogate = surrogate + (tensor * cut).sum()
    return surrogate, loss.detach()
