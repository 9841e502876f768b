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
    *("brick.png", "grass.png", "gravel.png", "coffee.png", "moon.png", "hubble_deep_field.jpg"),
    *("ihc.png", "astronaut.png", "motorcycle_left.png", "camera.png", "cell.png"),
    *("clock_motion.png", "text.png"),
)
MEASURING: Final[tuple[str, ...]] = ("chelsea.png", "rocket.jpg", "retina.jpg", "coins.png")
_LONG: Final = 640  # pixels of a photograph's longer side in memory


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
    if device.type == "cuda":  # one by one, the copies would take longer than all the rest
        return crops_together(rng, photos, count, size)
    chance = torch.rand(count, 5, generator=rng, device=device).cpu()
    out = torch.empty(count, 3, *size)
    for i, (which, scale, down, across, mirror) in enumerate(chance.tolist()):
        levels = photos[min(int(which * len(photos)), len(photos) - 1)]
        most = min(levels[0].shape[1] / size[0], levels[0].shape[2] / size[1])
        # photo pixels per scene pixel: from a detail at full resolution to the whole photograph
        factor = most**scale if most > 1 else most
        level = min(max(int(np.log2(max(factor, 1))), 0), len(levels) - 1)
        photo = levels[level]
        factor = factor / 2**level
        _, height, width = photo.shape
        h = min(int(size[0] * factor), height)
        w = min(int(size[1] * factor), width)
        y = int(down * (height - h))
        x = int(across * (width - w))
        piece = photo[:, y : y + h, x : x + w]
        piece = piece.flip(2) if mirror < 0.5 else piece
        out[i] = F.interpolate(piece[None], size, mode="bilinear", align_corners=False)[0]
    return out.to(device)


@cache
def _atlas(
    photos: tuple[tuple[Tensor, ...], ...], device: str
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return by level all photographs as one block (1, 3, D, H, W), and their sizes (D, 2)."""
    blocks = []
    sizes = []
    for level in zip(*photos, strict=True):
        height = max(photo.shape[1] for photo in level)
        width = max(photo.shape[2] for photo in level)
        block = torch.zeros(1, 3, len(level), height, width)
        for i, photo in enumerate(level):
            block[0, :, i, : photo.shape[1], : photo.shape[2]] = photo
        blocks.append(block.to(device))
        sizes.append(torch.tensor([photo.shape[1:] for photo in level], device=device).float())
    return tuple(blocks), tuple(sizes)


def crops_together(
    rng: torch.Generator, photos: tuple[tuple[Tensor, ...], ...], count: int, size: tuple[int, int]
) -> Tensor:
    """Return what `crop_backgrounds` returns, all crops of a level at once."""
    device = rng.device
    blocks, sizes = _atlas(photos, str(device))
    chance = torch.rand(count, 5, generator=rng, device=device)
    which = (chance[:, 0] * len(photos)).long().clamp(max=len(photos) - 1)
    wanted = torch.tensor(size, device=device).float()
    most = (sizes[0][which] / wanted).amin(1)
    factor = torch.where(most > 1, most ** chance[:, 1], most)
    level = factor.clamp(min=1).log2().long().clamp(0, len(blocks) - 1)
    places = [(torch.arange(side, device=device) + 0.5) / side for side in size]
    out = torch.empty(count, 3, *size, device=device)
    for i, (block, whole) in enumerate(zip(blocks, sizes, strict=True)):
        of_level = (level == i).nonzero()[:, 0]
        if not len(of_level):
            continue
        cut = torch.minimum(
            (wanted * (factor[of_level] / 2**i)[:, None]).floor(), whole[which[of_level]]
        )
        first = (chance[of_level, 2:4] * (whole[which[of_level]] - cut)).floor()
        across = torch.where(chance[of_level, 4:] < 0.5, 1 - places[1], places[1])
        # as interpolation does it: nothing beyond the crop's own border pixels
        ys = first[:, :1] + (places[0] * cut[:, :1] - 0.5).clamp(min=0).minimum(cut[:, :1] - 1)
        xs = first[:, 1:] + (across * cut[:, 1:] - 0.5).clamp(min=0).minimum(cut[:, 1:] - 1)
        depth, height, width = block.shape[2:]
        shape = (len(of_level), *size)
        grid = torch.stack(
            [
                (2 * xs / (width - 1) - 1)[:, None, :].expand(shape),
                (2 * ys / (height - 1) - 1)[:, :, None].expand(shape),
                (2 * which[of_level] / max(depth - 1, 1) - 1)[:, None, None].expand(shape),
            ],
            -1,
        )
        pieces = F.grid_sample(block, grid[None], align_corners=True, padding_mode="border")
        out[of_level] = pieces[0].transpose(0, 1)
    return out
