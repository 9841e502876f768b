"""Photographs and textures of scikit-image as backgrounds of composed scenes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

# Separate sets: measurements never show a background of the training.
TRAINING: Final[tuple[str, ...]] = (
    "brick.png",
    "grass.png",
    "gravel.png",
    "coffee.png",
    "moon.png",
    "hubble_deep_field.jpg",
    "ihc.png",
    "astronaut.png",
    "motorcycle_left.png",
)
MEASURING: Final[tuple[str, ...]] = (
    "chelsea.png",
    "rocket.jpg",
    "retina.jpg",
    "coins.png",
)
_LONG: Final = 640  # pixels of a photograph's longer side in memory


@cache
def photographs(names: tuple[str, ...]) -> tuple[tuple[Tensor, ...], ...]:
    """Return photographs as (3, H, W) floats in 0..1, at most 640 px long, and halved versions."""
    import skimage.data
    from PIL import Image

    folder = Path(skimage.data.__file__).parent
    textures = []
    for name in names:
        picture = Image.open(folder / name).convert("RGB")
        picture.thumbnail((_LONG, _LONG), Image.Resampling.LANCZOS)
        levels = [torch.from_numpy(np.array(picture)).permute(2, 0, 1).float() / 255]
        for _ in range(3):
            levels.append(F.avg_pool2d(levels[-1], 2))
        textures.append(tuple(levels))
    return tuple(textures)


def crop_backgrounds(
    rng: torch.Generator, photos: tuple[tuple[Tensor, ...], ...], count: int, size: tuple[int, int]
) -> Tensor:
    """Return random crops of photographs, (count, 3, H, W) in 0..1, mirrored at random."""
    device = rng.device
    chance = torch.rand(count, 5, generator=rng, device=device).cpu()
    out = torch.empty(count, 3, *size)
    for i, (which, scale, down, across, mirror) in enumerate(chance.tolist()):
        levels = photos[min(int(which * len(photos)), len(photos) - 1)]
        most = min(levels[0].shape[1] / size[0], levels[0].shape[2] / size[1])
        # photo pixels per scene pixel: from a detail at full resolution to the whole photograph
        factor = most**scale if most > 1 else most
        level = min(max(int(np.log2(max(factor, 1))), 0), len(levels) - 1)
        photo, factor = levels[level], factor / 2**level
        _, height, width = photo.shape
        h, w = min(int(size[0] * factor), height), min(int(size[1] * factor), width)
        y, x = int(down * (height - h)), int(across * (width - w))
        piece = photo[:, y : y + h, x : x + w]
        piece = piece.flip(2) if mirror < 0.5 else piece
        out[i] = F.interpolate(piece[None], size, mode="bilinear", align_corners=False)[0]
    return out.to(device)
