"""Ways to embed a region, each under one setting; images of one size go through the model together.

MaskInversion runs through the engine that everything else uses. The rivals are those of the paper:
the whole image's embedding (CLIP [CLS]), the cut-out box (Crop), the same with everything else
painted over (Masked Crop), and the mean of the mask's own tokens (after MaskCLIP).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..core.config import InversionConfig
from ..core.predictor import MaskInverter
from .cases import Case
from .subject import Subject
from .tower import Reading, embed_images, embed_tokens

BATCH: Final = 32  # images in the model at once
Fill = Literal["image mean", "model mean", "blurred"]
Embeddings = NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a way is used.

    Attributes
    ----------
    resolution : int
        Side in pixels of the model's input.
    context : float
        Side of the cut-out over the longer side of the region's box; infinite is the whole image.
    fill : str
        What a masked crop shows outside the mask.
    reading : {"values", "block"}
        Which tokens are averaged, see `tower.embed_tokens`.
    """

    resolution: int
    context: float = 1.0
    fill: Fill = "image mean"
    reading: Reading = "values"


@dataclass(frozen=True, slots=True)
class Way:
    """One way to embed a region.

    Attributes
    ----------
    title : str
        For tables.
    embed : callable
        (subject, cases, setting, inversion) to embeddings (regions, e), in the cases' order.
    choices : dict
        What can be set besides the resolution, the usual value first.
    """

    title: str
    embed: Callable[[Subject, Sequence[Case], Setting, InversionConfig], Embeddings]
    choices: dict[str, tuple[Any, ...]]

    def describe(self, setting: Setting) -> dict[str, Any]:
        """What matters of a setting, ready for JSON."""
        shown = {k: v for k, v in asdict(setting).items() if k == "resolution" or k in self.choices}
        if shown.get("context") == math.inf:
            shown["context"] = "whole image"
        return shown


def read_setting(described: dict[str, Any]) -> Setting:
    """Undo `Way.describe`."""
    setting = Setting(resolution=int(described["resolution"]))
    for key, value in described.items():
        changed: dict[str, Any] = {key: math.inf if value == "whole image" else value}
        setting = replace(setting, **changed)
    return setting


def invert(
    subject: Subject, cases: Sequence[Case], setting: Setting, inversion: InversionConfig
) -> tuple[Embeddings, NDArray[np.float64]]:
    """Invert every mask: embeddings (regions, e), and heatmap-to-mask IoU (map > 0.5)."""
    inverter = MaskInverter(subject.model)
    found, overlaps = [], []
    for case in cases:
        inverter.set_image(case.image, resolution=setting.resolution)
        result = inverter.invert(case.masks, inversion)
        found.append(result.unit_embeddings)
        overlaps.append(overlap(result.heatmaps, case.masks))
    return np.concatenate(found), np.concatenate(overlaps)


def overlap(heatmaps: NDArray[np.float32], masks: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Intersection over union (M,) of heatmaps above 0.5 and masks, both (M, H, W)."""
    hot = heatmaps > 0.5
    both, either = (hot & masks).sum((1, 2)), (hot | masks).sum((1, 2))
    return np.asarray(both / np.maximum(either, 1), float)


def _inversion(
    subject: Subject, cases: Sequence[Case], setting: Setting, inversion: InversionConfig
) -> Embeddings:
    return invert(subject, cases, setting, inversion)[0]


def whole(
    subject: Subject, cases: Sequence[Case], setting: Setting, _: InversionConfig
) -> Embeddings:
    """Give every region the embedding of its whole image."""
    inputs = [subject.model.preprocess(c.image, resolution=setting.resolution) for c in cases]
    found = _batched(inputs, lambda x, _: embed_images(subject.visual, x))
    return np.concatenate(
        [np.repeat(f[None], len(c.masks), 0) for f, c in zip(found, cases, strict=True)]
    )


def token_means(
    subject: Subject, cases: Sequence[Case], setting: Setting, _: InversionConfig
) -> Embeddings:
    """Average the unit token embeddings over each mask, weighted by how much a token holds."""
    inputs = [subject.model.preprocess(c.image, resolution=setting.resolution) for c in cases]

    def means(x: Tensor, which: list[int]) -> list[Tensor]:
        tokens, grid = embed_tokens(subject.visual, x, setting.reading)
        found = []
        for rows, index in zip(tokens, which, strict=True):
            masks = torch.from_numpy(cases[index].masks)[None].to(rows)
            weight = F.adaptive_avg_pool2d(masks, grid)[0].flatten(1)
            found.append(weight @ rows / weight.sum(1, keepdim=True).clamp(min=1e-9))
        return found

    return np.concatenate(_batched(inputs, means))


def crop(
    subject: Subject, cases: Sequence[Case], setting: Setting, _: InversionConfig
) -> Embeddings:
    """Embed each region's box, scaled to the model's input."""
    return _crops(subject, cases, setting, masked=False)


def masked_crop(
    subject: Subject, cases: Sequence[Case], setting: Setting, _: InversionConfig
) -> Embeddings:
    """Embed each region's box with everything outside the mask painted over."""
    return _crops(subject, cases, setting, masked=True)


def _crops(
    subject: Subject, cases: Sequence[Case], setting: Setting, *, masked: bool
) -> Embeddings:
    model, inputs = subject.model, []
    for case in cases:
        outside = _filling(case.image, setting.fill, model.mean) if masked else case.image
        for mask in case.masks:
            y0, x0, y1, x1 = _box(mask, setting.context)
            cut, under = case.image[y0:y1, x0:x1], mask[y0:y1, x0:x1, None]
            if masked:
                cut = np.where(under, cut, outside[y0:y1, x0:x1])
            inputs.append(model.preprocess(cut, resolution=setting.resolution, keep_aspect=False))
    found = _batched(inputs, lambda x, _: embed_images(subject.visual, x))
    return np.stack(found)


def _box(mask: NDArray[np.bool_], context: float) -> tuple[int, int, int, int]:
    """Return the mask's box; with context above 1 a square about it, inside the image."""
    height, width = mask.shape
    if context == math.inf:
        return 0, 0, height, width
    ys, xs = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    y0, y1, x0, x1 = int(ys[0]), int(ys[-1]) + 1, int(xs[0]), int(xs[-1]) + 1
    if context == 1:
        return y0, x0, y1, x1
    side = round(context * max(y1 - y0, x1 - x0))
    tall, wide = min(side, height), min(side, width)
    top = int(np.clip((y0 + y1 - tall) // 2, 0, height - tall))
    left = int(np.clip((x0 + x1 - wide) // 2, 0, width - wide))
    return top, left, top + tall, left + wide


def _filling(
    image: NDArray[np.uint8], fill: Fill, mean: tuple[float, float, float]
) -> NDArray[np.uint8]:
    if fill == "blurred":
        from PIL import Image, ImageFilter

        radius = max(image.shape[:2]) / 10
        blurred = Image.fromarray(image).filter(ImageFilter.GaussianBlur(radius))
        return np.asarray(blurred, np.uint8)
    colour = image.mean((0, 1)) if fill == "image mean" else 255 * np.array(mean)
    return np.broadcast_to(colour.round().astype(np.uint8), image.shape)


def _batched(
    inputs: list[Tensor], run: Callable[[Tensor, list[int]], Any]
) -> list[NDArray[np.float32]]:
    """Run inputs of one size together; one result per input, in order."""
    found: list[Any] = [None] * len(inputs)
    sizes: dict[tuple[int, ...], list[int]] = {}
    for index, tensor in enumerate(inputs):
        sizes.setdefault(tuple(tensor.shape), []).append(index)
    for members in sizes.values():
        for start in range(0, len(members), BATCH):
            which = members[start : start + BATCH]
            rows = run(torch.cat([inputs[i] for i in which]), which)
            for index, row in zip(which, rows, strict=True):
                found[index] = np.asarray(row.cpu().numpy(), np.float32)
    return found


CONTEXTS: Final = (1.0, 1.15, 1.4, 2.0)
WAYS: Final[dict[str, Way]] = {
    "maskinversion": Way("MaskInversion", _inversion, {}),
    "cls": Way("CLIP [CLS]", whole, {}),
    "maskclip": Way("token means (MaskCLIP)", token_means, {"reading": ("values", "block")}),
    "crop": Way("Crop", crop, {"context": CONTEXTS}),
    "masked_crop": Way(
        "Masked Crop",
        masked_crop,
        {"context": (*CONTEXTS, math.inf), "fill": ("image mean", "model mean", "blurred")},
    ),
}
