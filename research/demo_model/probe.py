"""Simple measurements during training; `bench` uses the engine instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.drawn.sprites import STYLES, UNSEEN_STYLE
from napari_maskinversion.demo_model.backgrounds import MEASURING
from napari_maskinversion.demo_model.scene_words import REAL
from napari_maskinversion.demo_model.scenes import SceneBatch, SceneStyle, compose, generator

from .losses import min_max, soft_dice
from .maps import Encoded, encode, legrad_maps
from .model import normalise, tokenize
from .views import Views

PROMPT: Final = "a photo of a {}"
LOOK: Final = SceneStyle(photographs=MEASURING)
SIZE: Final = 128  # pixels that the model sees
REAL_SEED: Final = 3000
CHUNK: Final = 64  # images inverted at once
GROUPS: Final = {
    kind: [i for i, name in enumerate(REAL) if name.group == kind]
    for kind in ("aerial", "blood", "nuclei")
}
# Weights of the margins of each kind: the regions that `benchmarks/flags.py` chose its limits on
# when stage 14 was trained.
REGIONS: Final = {"drawn": 300.0, "aerial": 69.0, "cells": 152.0}
NEW: Final = STYLES.index(UNSEEN_STYLE)
SEEN: Final = [i for i in range(len(STYLES)) if i != NEW]


def name_embeddings(model: Any, names: list[str], template: str = PROMPT) -> Tensor:
    """Return (N, e) unit embeddings of the names."""
    with torch.no_grad():
        tokens = tokenize([template.format(n) for n in names])
        return F.normalize(model.encode_text(tokens.to(model.logit_scale.device)), dim=-1)


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
        some = torch.full((count + count // 4,), objects)
        batch = compose(sprites, rng, some, (192, 192), styles=styles, look=LOOK)
        seen = (batch.visible > 0.5).sum((2, 3)).amin(1) >= 300
        kept.append(SceneBatch(batch.images[seen], batch.visible[seen], batch.labels[seen]))
    return SceneBatch(
        *(torch.cat([getattr(k, f) for k in kept])[:count] for f in ("images", "visible", "labels"))
    )


def _shrink(images: Tensor) -> Tensor:
    small = F.interpolate(images, (SIZE, SIZE), mode="bicubic", antialias=True, align_corners=False)
    return normalise(small.clamp(0, 1))


def _chunks(batch: SceneBatch) -> list[SceneBatch]:
    fields = batch.images, batch.visible, batch.labels
    return [
        SceneBatch(*(field[i : i + CHUNK] for field in fields))
        for i in range(0, len(batch.images), CHUNK)
    ]


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers about regions (R,): the margin of the first name, and whether it is right."""

    margin: Tensor
    right: Tensor
    true: Tensor

    @classmethod
    def of(cls, embeddings: Tensor, names: Tensor, true: Tensor) -> Answers:
        """Compare embeddings (R, e) with names (N, e)."""
        best = (F.normalize(embeddings, dim=-1) @ names.T).topk(2, -1)
        return cls(best.values[:, 0] - best.values[:, 1], best.indices[:, 0] == true, true)

    @classmethod
    def joined(cls, several: Sequence[Answers]) -> Answers:
        """Concatenate answers."""
        return cls(*(torch.cat([getattr(a, f) for a in several]) for f in cls.__slots__))

    @property
    def top1(self) -> float:
        """Share of right answers."""
        return self.right.float().mean().item()


def single_objects(model: Any, names: Tensor, batch: SceneBatch) -> float:
    """Measure top-1 of the image embedding on single-object scenes."""
    right = []
    for part in _chunks(batch):
        with torch.no_grad():
            image = encode(model.visual, _shrink(part.images))
        right.append((image.embedding @ names.T).argmax(-1) == part.labels[:, 0])
    return torch.cat(right).float().mean().item()


def inverted_regions(model: Any, names: Tensor, batch: SceneBatch) -> tuple[Answers, float]:
    """Answer for inverted regions, and measure their heatmaps' overlap with the masks."""
    answers, overlaps = [], []
    for part in _chunks(batch):
        with torch.no_grad():
            image = encode(model.visual, _shrink(part.images))
        masks = F.interpolate((part.visible > 0.5).float(), (SIZE, SIZE), mode="area")
        let, heat = invert(model.visual, image, masks)
        hot, region = heat > 0.5, masks > 0.5
        overlap = (hot & region).sum((2, 3)) / (hot | region).sum((2, 3)).clamp(min=1)
        overlaps.append(overlap.float().flatten())
        answers.append(Answers.of(let.flatten(0, 1), names, part.labels.flatten()))
    return Answers.joined(answers), torch.cat(overlaps).mean().item()


def real_answers(
    model: Any, names: Tensor, batch: SceneBatch, first_label: int
) -> dict[str, Answers]:
    """Answer for regions of real views by kind, among the names of their kind."""
    answers: dict[str, list[Answers]] = {kind: [] for kind in GROUPS}
    for part in _chunks(batch):
        with torch.no_grad():
            image = encode(model.visual, normalise(part.images))
        let, _ = invert(model.visual, image, part.visible)
        for kind, members in GROUPS.items():
            first, last = first_label + members[0], first_label + members[-1]
            asked = (part.labels >= first) & (part.labels <= last)
            own = names[first : last + 1]
            answers[kind].append(Answers.of(let[asked], own, part.labels[asked] - first))
    return {kind: Answers.joined(parts) for kind, parts in answers.items()}


def macro(answers: Answers) -> float:
    """Return top-1 averaged over the classes that are there."""
    right, true = answers.right.float(), answers.true
    return torch.stack([right[true == c].mean() for c in set(true.tolist())]).mean().item()


def auc(answers: Answers, weight: Tensor) -> float:
    """Return how often a right answer's margin exceeds a wrong one's, weighted; 0.5 by chance."""
    order = answers.margin.cpu().argsort()  # some devices have no double precision
    right, weight = answers.right.cpu()[order].double(), weight.cpu()[order].double()
    wrong = (1 - right) * weight
    below = wrong.cumsum(0) - wrong / 2
    total = (right * weight).sum() * wrong.sum()
    if not total:
        return float(answers.right.all())
    return ((below * right * weight).sum() / total).item()


class Judge:
    """Validation scenes, drawn once, and what a model makes of them."""

    def __init__(
        self,
        sprites: Sequence[Tensor],
        views: Views | None = None,
        *,
        count: int = 48,
        seeds: tuple[int, int, int] = (1000, 2000, REAL_SEED),
        device: torch.device | None = None,
    ) -> None:
        emoji, to = [level[: len(STYLES)].cpu() for level in sprites], device or torch.device("cpu")
        styles = {"seen": [i for i in SEEN if i < len(emoji[0])], "unseen": [NEW]}
        if len(emoji[0]) <= NEW:  # a trial with few styles
            styles["unseen"] = styles["seen"]

        def drawn(seed: int, count: int, objects: int, key: str = "seen") -> SceneBatch:
            return scenes(emoji, "validation", seed, count, objects, styles[key]).to(to)

        self.single = {key: drawn(seeds[0], 4 * count, 1, key) for key in styles}
        self.three = drawn(seeds[1], count, 3)
        more = [drawn(seeds[1] + 40 + n, max(1, count // 2), n) for n in (4, 5)]
        self.crowded = [batch for batch in more if batch.labels.shape[1] > 3]
        self.views = None if views is None else views.first_label
        if views is not None:
            rng = generator("validation", seeds[2])
            self.real = views.draw(rng, max(1, 160 * count // 48), (SIZE, SIZE)).to(to)

    def measure(self, model: Any, names: list[str]) -> dict[str, float]:
        """Measure single objects, inversions, real views and the margins of all regions."""
        was_training = model.training
        model.eval()
        texts = name_embeddings(model, names)
        out = {key: single_objects(model, texts, batch) for key, batch in self.single.items()}
        answers, out["iou"] = inverted_regions(model, texts, self.three)
        out["maskinversion"] = answers.top1
        crowded = [inverted_regions(model, texts, batch)[0] for batch in self.crowded]
        margins = {"drawn": Answers.joined([answers, *crowded])}
        if self.views is not None:
            real = real_answers(model, texts, self.real, self.views)
            out |= {kind: macro(part) for kind, part in real.items() if len(part.true)}
            cells = Answers.joined([real["blood"], real["nuclei"]])
            margins |= {"aerial": real["aerial"], "cells": cells}
        shares = [
            torch.full_like(part.margin, REGIONS[kind] / max(1, len(part.margin)))
            for kind, part in margins.items()
        ]
        out["auc"] = auc(Answers.joined(list(margins.values())), torch.cat(shares))
        model.train(was_training)
        return out


def worth(scores: Mapping[str, float]) -> float:
    """Return the mean over drawings, maps and the real kinds of images.

    The unseen style has no say, so that it stays unseen.
    """
    real = [scores[kind] for kind in GROUPS if kind in scores]
    parts = [scores["seen"], scores["maskinversion"], scores["iou"]]
    if real:
        parts.append(sum(real) / len(real))
    return sum(parts) / len(parts)


def worth14(scores: Mapping[str, float]) -> float:
    """Return the figure to choose weights by since stage 14: flags count, too."""
    return (4 * worth(scores) + scores["auc"]) / 5
