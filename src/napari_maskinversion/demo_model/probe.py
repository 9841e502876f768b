"""Simple measurements during training; `bench` uses the engine instead."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .backgrounds import MEASURING
from .domains import Views
from .losses import min_max, soft_dice
from .maps import Encoded, encode, legrad_maps
from .model import normalise, tokenize
from .scenes import SceneBatch, SceneStyle, compose, generator

PROMPT = "a photo of a {}"
LOOK = SceneStyle(photographs=MEASURING)


def name_embeddings(model: Any, names: list[str], template: str = PROMPT) -> Tensor:
    """Return (N, e) unit embeddings of the names."""
    with torch.no_grad():
        return F.normalize(model.encode_text(tokenize([template.format(n) for n in names])), dim=-1)


def invert(
    visual: Any, image: Encoded, masks: Tensor, *, steps: int = 10, learning_rate: float = 0.1
) -> tuple[Tensor, Tensor]:
    """Invert masks (B, M, H, W) by plain autograd; return embeddings (B, M, e) and heatmaps."""
    size = (masks.shape[2], masks.shape[3])

    def heatmaps(let: Tensor) -> Tensor:
        maps = legrad_maps(visual, image, let)
        return min_max(F.interpolate(maps, size, mode="bilinear", align_corners=False))

    let = image.embedding[:, None].repeat(1, masks.shape[1], 1).requires_grad_(True)
    optimiser = torch.optim.AdamW([let], lr=learning_rate, weight_decay=0.0)
    for _ in range(steps):
        (slope,) = torch.autograd.grad(soft_dice(heatmaps(let), masks).sum(), let)
        let.grad = slope
        optimiser.step()
    with torch.no_grad():
        return let.detach(), heatmaps(let)


def scenes(
    sprites: list[Tensor], split: str, seed: int, count: int, objects: int, styles: list[int]
) -> SceneBatch:
    """Return scenes at 192 px in which every object is visible enough."""
    kept: list[SceneBatch] = []
    while sum(len(k.images) for k in kept) < count:
        rng = generator(split, seed + len(kept))
        batch = compose(
            sprites,
            rng,
            torch.full((count + count // 4,), objects),
            (192, 192),
            styles=styles,
            look=LOOK,
        )
        seen = (batch.visible > 0.5).sum((2, 3)).amin(1) >= 300
        kept.append(SceneBatch(batch.images[seen], batch.visible[seen], batch.labels[seen]))
    return SceneBatch(
        *(torch.cat([getattr(k, f) for k in kept])[:count] for f in ("images", "visible", "labels"))
    )


def _shrink(images: Tensor, size: int) -> Tensor:
    small = F.interpolate(images, (size, size), mode="bicubic", antialias=True, align_corners=False)
    return normalise(small.clamp(0, 1))


def single_objects(model: Any, names: Tensor, batch: SceneBatch, size: int) -> float:
    """Measure top-1 of the image embedding on single-object scenes."""
    with torch.no_grad():
        image = encode(model.visual, _shrink(batch.images, size))
    best = (image.embedding @ names.T).argmax(-1, keepdim=True)
    return (best == batch.labels).float().mean().item()


def inverted_regions(model: Any, names: Tensor, batch: SceneBatch, size: int) -> dict[str, float]:
    """Measure top-1 of inverted regions, and the heatmaps' overlap with the masks."""
    with torch.no_grad():
        image = encode(model.visual, _shrink(batch.images, size))
    masks = F.interpolate((batch.visible > 0.5).float(), (size, size), mode="area")
    let, heat = invert(model.visual, image, masks)
    hot, region = heat > 0.5, masks > 0.5
    overlap = (hot & region).sum((2, 3)) / (hot | region).sum((2, 3)).clamp(min=1)
    right = (let @ names.T).argmax(-1) == batch.labels
    return {"maskinversion": right.float().mean().item(), "iou": overlap.mean().item()}


def measure(
    model: Any, sprites: list[Tensor], names: list[str], *, unseen: int, count: int, size: int
) -> dict[str, float]:
    """Measure everything; `unseen` is the index of the style that training never shows."""
    was_training = model.training
    model.eval()
    seen = [i for i in range(sprites[0].shape[0]) if i != unseen]
    text = name_embeddings(model, names)
    out = {}
    for key, styles in (("seen", seen), ("unseen", [unseen])):
        batch = scenes(sprites, "validation", 1000, 4 * count, 1, styles)
        out[key] = single_objects(model, text, batch, size)
    batch = scenes(sprites, "validation", 2000, count, 3, seen)
    out |= inverted_regions(model, text, batch, size)
    model.train(was_training)
    return out


def measure_real(
    model: Any, views: Views, names: list[str], *, count: int, size: int, seed: int = 3000
) -> dict[str, float]:
    """Measure macro-averaged top-1 of regions in real views, among the names of their kind."""
    text = name_embeddings(model, names)
    batch = views.draw(generator("validation", seed), count, (size, size))
    with torch.no_grad():
        image = encode(model.visual, normalise(batch.images))
    let, _ = invert(model.visual, image, batch.visible)
    first = views.first_label
    kinds = {"aerial": range(5), "blood": range(5, 8), "nuclei": range(8, 10)}
    out = {}
    for kind, members in kinds.items():
        own = torch.arange(first + members.start, first + members.stop)
        asked = torch.isin(batch.labels, own)
        answers = own[(let[asked] @ text[own].T).argmax(-1)]
        true = batch.labels[asked]
        shares = [(answers == label)[true == label].float().mean() for label in own]
        out[kind] = torch.stack(shares).nanmean().item()
    return out
