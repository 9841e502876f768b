"""Training losses: names, captions, maps, and the direction of an inversion."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .maps import Encoded, attention_gradients, legrad_maps
from .model import EMBEDDING_NORM
from .scenes import DISTRACTOR


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
    hot = F.one_hot(labels.clamp(min=0), names) * (labels >= 0)[..., None]
    return hot.amax(1).float()


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


def descent_loss(
    visual: Any,
    image: Encoded,
    names: Tensor,
    labels: Tensor,
    cover: Tensor,
    queries: Tensor,
    scale: Tensor,
    *,
    steps: int = 2,
    reach: float = 0.8,
) -> Tensor:
    """Classify embeddings after a few differentiable descent steps on each object's mask.

    The resulting maps should cover the masks (soft Dice). A distractor's embedding should be
    equally far from all names. The image embedding, where every inversion starts, should have a map
    at all: behind its ReLU no descent could bring it back.

    A step moves by the gradient divided by its root mean square, as AdamW's first steps do;
    `reach` is the length of all steps per coordinate.
    """
    named, nothing = labels >= 0, labels == DISTRACTOR
    asked = named | nothing
    start = EMBEDDING_NORM * F.normalize(image.embedding, dim=-1)
    start = start[:, None].expand(-1, labels.shape[1], -1)
    let = start
    for _ in range(steps):
        if not let.requires_grad:
            let = let.requires_grad_(True)
        maps = min_max(legrad_maps(visual, image, let, queries))
        loss = soft_dice(maps, cover)[asked].sum()
        (slope,) = torch.autograd.grad(loss, let, create_graph=True)
        rms = slope.square().mean(-1, keepdim=True).add(1e-16).sqrt()
        let = let - reach / steps * slope / rms
    logits = scale * F.normalize(let, dim=-1) @ names.T
    reached = min_max(legrad_maps(visual, image, let, queries))
    loss = F.cross_entropy(logits[named], labels[named])
    loss = loss + soft_dice(reached, cover)[asked].mean()
    if nothing.any():
        unsure = -logits[nothing].log_softmax(-1).mean(-1) - math.log(len(names))
        loss = loss + 0.25 * unsure.mean()
    return loss + fading(visual, image, queries).mean()


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
) -> tuple[Tensor, float]:
    """Evaluate a loss of an encoding so that no single image can dominate its gradient.

    Second derivatives of nearly flat maps are huge. Each image's gradient is cut at
    `most` times the median over the images; weights inside the map's formula count as constants.

    Returns
    -------
    surrogate : Tensor
        A scalar whose gradient is the bounded one; its value means nothing.
    value : float
        The loss.
    """
    leaf = image.detached()
    loss = ask(leaf)
    slopes = torch.autograd.grad(loss, leaf.tensors, allow_unused=True, materialize_grads=True)
    slopes = tuple(s.nan_to_num(0.0, 0.0, 0.0) for s in slopes)
    norms = torch.stack([s.flatten(1).norm(dim=1) for s in slopes]).norm(dim=0)
    factor = (most * norms.median() / norms.clamp(min=1e-20)).clamp(max=1.0)
    surrogate = torch.zeros((), device=loss.device)
    for tensor, slope in zip(image.tensors, slopes, strict=True):
        cut = slope * factor.reshape(-1, *[1] * (slope.ndim - 1))
        surrogate = surrogate + (tensor * cut).sum()
    return surrogate, loss.item()
