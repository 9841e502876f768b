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
    "camera.png",
    "cell.png",
    "clock_motion.png",
    "text.png",
)
MEASURING: Final[tuple[str, ...]] = (
    "chelsea.png",
    "rocket.jpg",
    "retina.jpg",
    "coins.png",
)
_LONG: Final = 640  # pixels of a photograph's longer side in memory
_DISCS: Final = 16  # of a cluttered background


@cache
def photographs(names: tuple[str, ...]) -> tuple[tuple[Tensor, ...], ...]:
    """Return photographs as (3, H, W) floats in 0..1, at most 640 px long, and halved versions.

    Names are of scikit-image's files, or full paths.
    """
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


def varied(rng: torch.Generator, images: Tensor, share: float) -> Tensor:
    """Make other backgrounds of (B, 3, H, W) in 0..1, so that few photographs look like many.

    Each change has its own ``share`` of the images: other colours; the halves of two backgrounds
    side by side; discs and rings scattered on it.
    """

    def some() -> Tensor:
        return torch.rand(len(images), generator=rng, device=rng.device) < share

    images, use = images.clone(), some()
    images[use] = _recoloured(rng, images[use])
    use = some()
    other = images.roll(1, 0)[use]
    images[use] = torch.where(_half(rng, other), other, images[use])
    use = some()
    images[use] = _cluttered(rng, images[use])
    return images


def _recoloured(rng: torch.Generator, images: Tensor) -> Tensor:
    """Exchange channels, bend their tones, and invert a quarter of the images."""
    batch, device = len(images), rng.device
    order = torch.rand(batch, 3, generator=rng, device=device).argsort(1)
    exchanged = images.gather(1, order[:, :, None, None].expand_as(images))
    tones = (0.35 * torch.randn(batch, 3, 1, 1, generator=rng, device=device)).exp()
    toned = exchanged.clamp(0, 1) ** tones
    inverted = torch.rand(batch, 1, 1, 1, generator=rng, device=device) < 0.25
    return torch.where(inverted, 1 - toned, toned)


def _half(rng: torch.Generator, images: Tensor) -> Tensor:
    """Return one side of a random line through each image, (B, 1, H, W) bool."""
    ys, xs = _places(images)
    angle = 2 * torch.pi * torch.rand(len(images), 1, 1, 1, generator=rng, device=rng.device)
    shift = torch.rand(len(images), 1, 1, 1, generator=rng, device=rng.device) - 0.5
    return angle.cos() * xs + angle.sin() * ys > shift


def _cluttered(rng: torch.Generator, images: Tensor) -> Tensor:
    """Lay shaded discs and rings on the images, of 5 to 30 % of their size."""
    ys, xs = _places(images)
    finest = 2 / min(images.shape[2:])
    for _ in range(_DISCS):
        chance = torch.rand(len(images), 11, 1, 1, 1, generator=rng, device=rng.device)
        y, x = 2.2 * chance[:, 0] - 1.1, 2.2 * chance[:, 1] - 1.1
        radius, flat = 0.1 + 0.5 * chance[:, 2] ** 2, 0.5 + 0.5 * chance[:, 3]
        angle, light = torch.pi * chance[:, 4], 2 * torch.pi * chance[:, 5]
        along = angle.cos() * (xs - x) + angle.sin() * (ys - y)
        across = (angle.cos() * (ys - y) - angle.sin() * (xs - x)) / flat
        distance = (along**2 + across**2).sqrt() / radius
        cover = ((1 - distance) * radius / finest + 0.5).clamp(0, 1)
        cover = torch.where((chance[:, 6] < 0.3) & (distance < 0.6), 0, cover)
        colour = chance[:, 7:10].reshape(-1, 3, 1, 1)
        shade = (
            1 + 0.5 * (chance[:, 10] - 0.5) * (light.cos() * along + light.sin() * across) / radius
        )
        images = images * (1 - cover) + colour * shade * cover
    return images.clamp(0, 1)


def _places(images: Tensor) -> tuple[Tensor, Tensor]:
    """Return y and x of the pixels, -1..1, broadcast against (B, 1, H, W)."""
    height, width = images.shape[2:]
    ys = torch.linspace(-1, 1, height, device=images.device)[None, None, :, None]
    xs = torch.linspace(-1, 1, width, device=images.device)[None, None, None, :]
    return ys, xs
