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


def token_means(visual: Any, image: Encoded, masks: Tensor) -> Tensor:
    """Average the last layer's projected values over each mask, as MaskCLIP does: (B, M, e)."""
    block = visual.transformer.resblocks[-1]
    tokens = block.attn.out_proj(image.values.transpose(1, 2).flatten(2))
    tokens = F.normalize(visual.ln_post(tokens) @ visual.proj, dim=-1)[:, 1:]
    weight = F.adaptive_avg_pool2d(masks, image.grid).flatten(2)
    means: Tensor = weight @ tokens / weight.sum(-1, keepdim=True).clamp(min=1e-6)
    return means


def crops(images: Tensor, masks: Tensor, size: int, *, masked: bool) -> Tensor:
    """Crop each mask's bounding box and scale it for the model, (B, M, 3, size, size)."""
    out = []
    for image, regions in zip(images, masks, strict=True):
        fill = image.mean((1, 2), keepdim=True)
        for region in regions > 0.5:
            ys, xs = region.any(1).nonzero()[:, 0], region.any(0).nonzero()[:, 0]
            source = torch.where(region, image, fill) if masked else image
            cut = source[:, int(ys[0]) : int(ys[-1]) + 1, int(xs[0]) : int(xs[-1]) + 1]
            out.append(
                F.interpolate(cut[None], (size, size), mode="bicubic", antialias=True)[0].clamp(
                    0, 1
                )
            )
    return torch.stack(out).reshape(*masks.shape[:2], 3, size, size)


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


def single_accuracy(model: Any, names: Tensor, batch: SceneBatch, size: int) -> dict[str, float]:
    """Measure top-1 and top-5 of the image embedding on single-object scenes."""
    with torch.no_grad():
        image = encode(model.visual, _shrink(batch.images, size))
        order = (image.embedding @ names.T).argsort(-1, descending=True)
    hits = order[:, :5] == batch.labels
    return {"top1": hits[:, 0].float().mean().item(), "top5": hits.any(1).float().mean().item()}


def region_accuracy(
    model: Any, names: Tensor, batch: SceneBatch, size: int, *, crop: bool = True
) -> dict[str, float]:
    """Measure top-1 of several region embeddings, and the heatmaps' overlap with the masks."""
    visual, masks = model.visual, (batch.visible > 0.5).float()
    out: dict[str, float] = {}

    def share(embeddings: Tensor) -> float:
        return ((embeddings @ names.T).argmax(-1) == batch.labels).float().mean().item()

    with torch.no_grad():
        image = encode(visual, _shrink(batch.images, size))
        out["norm"] = image.embedding.norm(dim=-1).mean().item()
        out["cls"] = share(image.embedding[:, None].expand(-1, masks.shape[1], -1))
        out["maskclip"] = share(token_means(visual, image, masks))
        if crop:
            for key, masked in (("crop", False), ("masked_crop", True)):
                cut = crops(batch.images, masks, size, masked=masked)
                embedding = encode(visual, normalise(cut.flatten(0, 1))).embedding
                out[key] = share(embedding.reshape(*masks.shape[:2], -1))
    small = F.interpolate(masks, (size, size), mode="area")
    let, heat = invert(visual, image, small)
    out["maskinversion"] = share(let)
    hot, region = heat > 0.5, small > 0.5
    out["iou"] = (
        ((hot & region).sum((2, 3)) / (hot | region).sum((2, 3)).clamp(min=1)).mean().item()
    )
    return out


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
        out[key] = single_accuracy(model, text, batch, size)["top1"]
    out |= region_accuracy(model, text, scenes(sprites, "validation", 2000, count, 3, seen), size)
    model.train(was_training)
    return out


def measure_real(
    model: Any, views: Views, names: list[str], *, count: int, size: int
) -> dict[str, float]:
    """Measure macro-averaged top-1 of regions in real views, among the names of their kind."""
    text = name_embeddings(model, names)
    batch = views.draw(generator("validation", 3000), count, (size, size))
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
