"""What training asks of the model: names, captions, maps, the direction an inversion moves in."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .maps import Encoded, legrad_maps
from .model import EMBEDDING_NORM


def name_loss(embedding: Tensor, names: Tensor, labels: Tensor, scale: Tensor) -> Tensor:
    """Cross-entropy of images (B, e) against all names (N, e), uniform over those present.

    ``labels`` is (B, M), -1 where a scene has fewer objects.
    """
    target = presence(labels, len(names))
    target = target / target.sum(1, keepdim=True)
    logits = scale * F.normalize(embedding, dim=-1) @ names.T
    return -(target * logits.log_softmax(-1)).sum(1).mean()


def presence(labels: Tensor, names: int) -> Tensor:
    """Return (B, names) floats, 1 where a name is in the scene."""
    hot = F.one_hot(labels.clamp(min=0), names) * (labels >= 0)[..., None]
    return hot.amax(1).float()


def caption_loss(embedding: Tensor, captions: Tensor, scale: Tensor) -> Tensor:
    """CLIP's symmetric contrast of images (B, e) and their captions (B, e)."""
    logits = scale * F.normalize(embedding, dim=-1) @ F.normalize(captions, dim=-1).T
    right = torch.arange(len(logits))
    return (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right)) / 2


def coverage(visible: Tensor, grid: tuple[int, int]) -> Tensor:
    """Average masks (B, M, H, W) over each token of a grid."""
    return F.adaptive_avg_pool2d(visible, grid)


def soft_dice(maps: Tensor, cover: Tensor) -> Tensor:
    """Soft Dice loss per map, (..., H, W) to (...)."""
    both = (maps * cover).sum((-2, -1))
    return 1 - (2 * both + 1) / (maps.sum((-2, -1)) + cover.sum((-2, -1)) + 1)


def min_max(maps: Tensor) -> Tensor:
    """Scale every map to 0..1."""
    low = maps.amin((-2, -1), keepdim=True)
    return (maps - low) / (maps.amax((-2, -1), keepdim=True) - low).clamp(min=1e-12)


def map_losses(
    visual: Any,
    image: Encoded,
    names: Tensor,
    labels: Tensor,
    cover: Tensor,
    queries: Tensor,
    absent: Tensor,
) -> tuple[Tensor, Tensor]:
    """Supervise the maps of the names' own embeddings.

    Parameters
    ----------
    visual, image
        As for `legrad_maps`.
    names : Tensor
        (N, e), unit norm.
    labels : Tensor
        (B, M), -1 where there is no object.
    cover : Tensor
        (B, M, gh, gw), each object's visible share of each token.
    queries : Tensor
        Query tokens to average over.
    absent : Tensor
        (B, X), labels of names that are not in the scene.

    Returns
    -------
    overlap : Tensor
        Mean soft Dice loss of the present names' maps, each divided by its maximum.
    contrast : Tensor
        Cross-entropy at the objects' tokens: the raw map of the right name must beat the others'.
    """
    present = labels >= 0
    asked = torch.cat([labels.clamp(min=0), absent], 1)
    raw = legrad_maps(visual, image, names[asked], queries)
    own = raw[:, : labels.shape[1]]
    dice = soft_dice(own / own.amax((-2, -1), keepdim=True).clamp(min=1e-12), cover)
    overlap = dice[present].mean()
    usable = torch.cat([present, torch.ones_like(absent, dtype=torch.bool)], 1)
    level = raw.detach().mean((1, 2, 3), keepdim=True).clamp(min=1e-12)
    logits = (2 * raw / level).masked_fill(~usable[..., None, None], -1e4)
    weight = cover * (cover > 0.4)
    contrast = -(weight * logits.log_softmax(1)[:, : labels.shape[1]]).sum() / weight.sum().clamp(
        min=1
    )
    return overlap, contrast


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

    A step moves by the gradient divided by its root mean square, as AdamW's first steps do;
    `reach` is the way of all steps together, per coordinate.
    """
    present = labels >= 0
    start = EMBEDDING_NORM * F.normalize(image.embedding, dim=-1)
    start = start[:, None].expand(-1, labels.shape[1], -1)
    let = start
    for _ in range(steps):
        if not let.requires_grad:
            let = let.requires_grad_(True)
        maps = min_max(legrad_maps(visual, image, let, queries))
        loss = soft_dice(maps, cover)[present].sum()
        (slope,) = torch.autograd.grad(loss, let, create_graph=True)
        rms = slope.square().mean(-1, keepdim=True).add(1e-16).sqrt()
        let = let - reach / steps * slope / rms
    logits = scale * F.normalize(let[present], dim=-1) @ names.T
    return F.cross_entropy(logits, labels[present])
