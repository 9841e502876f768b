"""Composed scenes with exact masks: drawings on random backgrounds, in batches, from a seed.

One sampler serves training (small, many at once), evaluation and the sample scenes (large, one at a
time): sizes are fractions of the shorter side, and the finest background detail does not depend on
the resolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

# object diameters as fractions of the shorter side, by the number of objects
SIZES: Final[dict[int, tuple[float, float]]] = {
    1: (0.35, 0.95),
    2: (0.30, 0.62),
    3: (0.28, 0.52),
    4: (0.26, 0.44),
    5: (0.24, 0.38),
}
# each use of scenes has its own range of seeds, so nothing measured was ever trained on
SPLITS: Final[dict[str, int]] = {
    "train": 0,
    "validation": 1 << 40,
    "test": 2 << 40,
    "sample": 3 << 40,
}


@dataclass(frozen=True, slots=True)
class SceneBatch:
    """Scenes and what is in them.

    Attributes
    ----------
    images : Tensor
        (B, 3, H, W) float, 0..1.
    visible : Tensor
        (B, M, H, W) float, 0..1: how much of a pixel shows object m.
    labels : Tensor
        (B, M) int64, index into the names; -1 where a scene has fewer objects.
    """

    images: Tensor
    visible: Tensor
    labels: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneStyle:
    """How wild scenes are; the defaults are those of training."""

    turn: float = 0.45  # radians; standard deviation of an object's rotation
    upside_down: float = 0.08  # share of objects turned by any angle
    colour: float = 0.22  # strength of the colour jitter
    grain: float = 0.10  # largest pixel noise
    contrast: float = 0.75  # strength of the background's texture
    apart: float = 0.62  # wanted distance of centres, in mean diameters
    margin: float = 0.14  # least distance of a centre from the border


CALM = SceneStyle(
    turn=0.22, upside_down=0.0, colour=0.08, grain=0.0, contrast=0.5, apart=0.85, margin=0.2
)


def generator(split: str, seed: int) -> torch.Generator:
    """Return a random generator for one batch of a split."""
    return torch.Generator().manual_seed(SPLITS[split] + seed)


def pyramid(sprites: NDArray[np.uint8], levels: int = 3) -> list[Tensor]:
    """Turn sprites (styles, names, S, S, 4) into float levels S, S/2, ..., colours times alpha."""
    x = torch.from_numpy(sprites).float().div_(255).permute(0, 1, 4, 2, 3).contiguous()
    x[:, :, :3] *= x[:, :, 3:]
    stack = [x]
    for _ in range(levels - 1):
        flat = F.avg_pool2d(stack[-1].flatten(0, 1), 2)
        stack.append(flat.reshape(*x.shape[:3], *flat.shape[2:]))
    return stack


def compose(
    sprites: Sequence[Tensor],
    rng: torch.Generator,
    counts: Tensor,
    size: tuple[int, int],
    *,
    styles: Sequence[int] | None = None,
    look: SceneStyle | None = None,
) -> SceneBatch:
    """Compose one scene per entry of `counts`.

    Parameters
    ----------
    sprites : sequence of Tensor
        Levels from `pyramid`.
    rng : torch.Generator
        The only source of chance.
    counts : Tensor
        (B,) int64, objects per scene, 1 to 5. Names within a scene differ.
    size : (int, int)
        Height and width in pixels.
    styles : sequence of int, optional
        Indices of the art styles to draw from; default all.
    look : SceneStyle, optional
        How wild the scenes are.
    """
    look = look or SceneStyle()
    batch, most = len(counts), int(counts.max())
    names = sprites[0].shape[1]
    labels = torch.rand(batch, names, generator=rng).argsort(1)[:, :most]
    pool = torch.tensor(range(sprites[0].shape[0]) if styles is None else styles)
    drawn = pool[torch.randint(len(pool), (batch, most), generator=rng)]
    centres, diameters = _place(rng, counts, most, size, look)
    images = _background(rng, batch, size, look)
    present = torch.arange(most) < counts[:, None]
    labels = torch.where(present, labels, -1)
    layers = _draw(sprites, rng, drawn, labels, centres, diameters, size, look)
    visible = torch.zeros(batch, most, *size)
    for m in range(most):  # later objects lie on top
        alpha = layers[:, m, 3:]
        images = images * (1 - alpha) + layers[:, m, :3]
        visible *= 1 - alpha
        visible[:, m] = alpha[:, 0]
    if look.grain:
        strength = look.grain * torch.rand(batch, 1, 1, 1, generator=rng) ** 2
        images = images + strength * torch.randn(images.shape, generator=rng)
    return SceneBatch(images.clamp(0, 1), visible, labels)


def _place(
    rng: torch.Generator, counts: Tensor, most: int, size: tuple[int, int], look: SceneStyle
) -> tuple[Tensor, Tensor]:
    """Draw centres (B, M, 2) as x, y in pixels and diameters (B, M), avoiding heavy overlap."""
    batch, (height, width), tries = len(counts), size, 16
    low = torch.tensor([SIZES[int(c)][0] for c in counts])[:, None]
    high = torch.tensor([SIZES[int(c)][1] for c in counts])[:, None]
    diameters = (low + (high - low) * torch.rand(batch, most, generator=rng)) * min(size)
    inner = 1 - 2 * look.margin
    centres = look.margin + inner * torch.rand(batch, tries, most, 2, generator=rng)
    centres = centres * torch.tensor([width, height])
    gaps = (centres[:, :, :, None] - centres[:, :, None]).norm(dim=-1)
    gaps = gaps / ((diameters[:, :, None] + diameters[:, None]) / 2)[:, None]
    present = torch.arange(most) < counts[:, None]
    pairs = (present[:, :, None] & present[:, None]).triu(1)[:, None]
    closest = gaps.masked_fill(~pairs, math.inf).flatten(2).amin(2)
    # the first try that is good enough, else the best one
    best = torch.where(
        closest >= look.apart, 100.0 - torch.arange(tries), closest.clamp(max=50)
    ).argmax(1)
    return centres[torch.arange(batch), best], diameters


def _draw(
    sprites: Sequence[Tensor],
    rng: torch.Generator,
    drawn: Tensor,
    labels: Tensor,
    centres: Tensor,
    diameters: Tensor,
    size: tuple[int, int],
    look: SceneStyle,
) -> Tensor:
    """Render each object on a canvas of its own: (B, M, 4, H, W), colours multiplied by alpha."""
    batch, most = labels.shape
    shape = (batch, most)
    angle = look.turn * torch.randn(shape, generator=rng)
    anyway = torch.rand(shape, generator=rng) < look.upside_down
    angle = torch.where(anyway, 2 * math.pi * torch.rand(shape, generator=rng), angle)
    flip = torch.where(torch.rand(shape, generator=rng) < 0.5, -1.0, 1.0)
    stretch = torch.exp(0.08 * torch.randn(shape, generator=rng)).clamp(0.85, 1.18)
    gain = torch.exp(look.colour * torch.randn(batch, most, 3, generator=rng)).clamp(0.6, 1.5)
    gamma = torch.exp(look.colour * torch.randn(shape, generator=rng)).clamp(0.6, 1.6)
    out = torch.zeros(batch, most, 4, *size)
    level = torch.zeros(shape, dtype=torch.long)
    for i in range(1, len(sprites)):  # the smallest level that is at least as large as the object
        level[diameters <= sprites[i].shape[-1]] = i
    cos, sin = angle.cos(), angle.sin()
    ys, xs = torch.meshgrid(torch.arange(size[0]) + 0.5, torch.arange(size[1]) + 0.5, indexing="ij")
    for i, sprite in enumerate(sprites):
        at = (labels >= 0) & (level == i)
        if not at.any():
            continue
        dx = xs - centres[at][:, 0, None, None]
        dy = ys - centres[at][:, 1, None, None]
        half, c, s = (t[at][:, None, None] for t in (diameters / 2, cos, sin))
        u = (c * dx + s * dy) / (half * stretch[at][:, None, None]) * flip[at][:, None, None]
        v = (-s * dx + c * dy) / half * stretch[at][:, None, None]
        texture = sprite[drawn[at], labels[at]]
        out[at] = F.grid_sample(texture, torch.stack([u, v], -1), align_corners=False)
    alpha = out[:, :, 3:]
    colour = (out[:, :, :3] / alpha.clamp(min=1e-4)).clamp(1e-4, 1)
    colour = (colour ** gamma[..., None, None, None] * gain[..., None, None]).clamp(0, 1)
    return torch.cat([colour * alpha, alpha], 2)


def _background(
    rng: torch.Generator, batch: int, size: tuple[int, int], look: SceneStyle
) -> Tensor:
    """Gradients, soft noise of several grains and stripes, mixed at random: (B, 3, H, W)."""
    height, width = size
    ends = torch.rand(batch, 2, 3, generator=rng)
    ys, xs = torch.meshgrid(
        torch.linspace(-1, 1, height), torch.linspace(-1, 1, width), indexing="ij"
    )
    angle = 2 * math.pi * torch.rand(batch, 1, 1, generator=rng)
    along = angle.cos() * xs + angle.sin() * ys
    ramp = (0.5 + 0.4 * along)[:, None].clamp(0, 1)
    far = (ends[:, 0] + 0.5 * (ends[:, 1] - ends[:, 0]))[:, :, None, None]
    image = ends[:, 0, :, None, None] * (1 - ramp) + far * ramp
    for cells, most in ((3, 0.35), (8, 0.22), (24, 0.16)):
        weight = look.contrast * most * torch.rand(batch, 1, 1, 1, generator=rng)
        coloured = torch.rand(batch, 1, 1, 1, generator=rng)
        noise = torch.randn(batch, 4, cells, cells, generator=rng)
        noise = noise[:, :1] * (1 - coloured) + noise[:, 1:] * coloured
        image = image + weight * F.interpolate(noise, size, mode="bicubic", align_corners=False)
    waves = torch.sin(along * (4 + 26 * torch.rand(batch, 1, 1, generator=rng)))
    used = (torch.rand(batch, 1, 1, generator=rng) < 0.3) * look.contrast
    waves = used * 0.15 * torch.rand(batch, 1, 1, generator=rng) * waves
    return (image + waves[:, None]).clamp(0, 1)
