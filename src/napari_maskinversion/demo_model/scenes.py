"""Composed scenes with exact masks: drawings on random backgrounds, in batches, from a seed.

One sampler serves training (small, many at once), evaluation and the sample scenes (large, one at a
time): sizes are fractions of the shorter side, and the finest background detail does not depend on
the resolution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from .backgrounds import crop_backgrounds, photographs

DISTRACTOR: Final = -2  # label of a mask on something without a name
NOTHING: Final = -1  # label of an unused slot
# object diameters as fractions of the shorter side, by the number of objects
SIZES: Final[dict[int, tuple[float, float]]] = {
    1: (0.35, 0.95),
    2: (0.30, 0.62),
    3: (0.28, 0.52),
    4: (0.26, 0.44),
    5: (0.24, 0.38),
}
# Each use of scenes has its own range of seeds: no measured scene was trained on. A CPU's
# generator looks at the lowest 32 bits alone.
SPLITS: Final[dict[str, int]] = {
    "train": 0,
    "validation": 1 << 30,
    "test": 2 << 30,
    "sample": 3 << 30,
}


@dataclass(frozen=True, slots=True)
class SceneBatch:
    """Scenes with their objects."""

    images: Tensor  # (B, 3, H, W) float, 0..1
    visible: Tensor  # (B, M, H, W) float, 0..1: how much of a pixel shows object m
    labels: Tensor  # (B, M) int64, index into the names, or `NOTHING` or `DISTRACTOR`

    def to(self, device: torch.device) -> SceneBatch:
        """Return the same scenes on a device."""
        return SceneBatch(self.images.to(device), self.visible.to(device), self.labels.to(device))


class Restyling(Protocol):
    """Changes that only training makes, to drawings and what is behind them."""

    @property
    def borrowed(self) -> float:
        """Share of objects that take the colours of the same thing in another style."""

    def vary(self, images: Tensor, rng: torch.Generator) -> Tensor:
        """Change some backgrounds (B, 3, H, W)."""

    def bend(self, places: Tensor, rng: torch.Generator) -> Tensor:
        """Displace the coordinates (K, H, W, 2) within each drawing."""

    def borrow(self, texture: Tensor, other: Tensor, rng: torch.Generator) -> Tensor:
        """Paint some drawings (K, 4, S, S) with the colours of others."""

    def paint(self, texture: Tensor, rng: torch.Generator) -> Tensor:
        """Change the paint of drawings (K, 4, S, S); the shape stays."""

    def outline(self, layers: Tensor, places: Tensor, rng: torch.Generator) -> Tensor:
        """Change the outlines of drawings on their canvas (K, 4, H, W), and hide parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneStyle:
    """Variation of scenes; the defaults are those of training."""

    turn: float = 0.45  # radians; standard deviation of an object's rotation
    upside_down: float = 0.08  # share of objects turned by any angle
    colour: float = 0.22  # strength of the colour jitter
    grain: float = 0.10  # largest pixel noise
    contrast: float = 0.75  # strength of the background's texture
    apart: float = 0.62  # wanted distance of centres, in mean diameters
    margin: float = 0.14  # least distance of a centre from the border
    photographs: tuple[str, ...] = ()  # backgrounds to use, from `backgrounds`
    pictured: float = 0.5  # share of scenes on a photograph, where any are named
    odd: float = 0.0  # share of objects whose colours are turned or greyed
    blurred: float = 0.0  # share of scenes out of focus
    distractors: float = 0.0  # share of scenes that also ask for a piece of background
    restyling: Restyling | None = None  # changes beyond the colours
    strangers: float = 0.0  # share of scenes of several objects, one of which has no name


CALM = SceneStyle(
    turn=0.22, upside_down=0.0, colour=0.08, grain=0.0, contrast=0.5, apart=0.85, margin=0.2
)


def generator(split: str, seed: int, device: str | torch.device = "cpu") -> torch.Generator:
    """Return a random generator for one batch of a split; scenes are rendered on its device."""
    return torch.Generator(device).manual_seed(SPLITS[split] + seed)


def pyramid(sprites: NDArray[np.uint8], levels: int = 3) -> list[Tensor]:
    """Turn sprites (styles, names, S, S, 4) into float levels S, S/2, ..., colours times alpha.

    A missing drawing is all zeros.
    """
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
    named: int | None = None,
) -> SceneBatch:
    """Compose one scene of `counts` objects (B,) each, from levels of `pyramid`.

    The `named` first drawings have a name, by default all; the others are strangers.
    """
    look = look or SceneStyle()
    device = rng.device
    drawings = sprites[0].shape[1]
    names = drawings if named is None else named
    counts = counts.to(device).clamp(max=names)
    batch = len(counts)
    most = int(counts.max())
    labels = torch.rand(batch, names, generator=rng, device=device).argsort(1)[:, :most]
    if look.strangers and drawings > names:
        use = torch.rand(batch, generator=rng, device=device) < look.strangers
        other = torch.randint(names, drawings, (batch,), generator=rng, device=device)
        slot = torch.randint(most, (batch,), generator=rng, device=device) % counts
        use &= counts > 1
        labels[use, slot[use]] = other[use]
    pool = torch.tensor(range(sprites[0].shape[0]) if styles is None else styles, device=device)
    drawn = _styles(sprites, rng, pool, labels)
    borrowing = look.restyling is not None and look.restyling.borrowed > 0
    lenders = drawn
    if borrowing:
        lenders = _styles(sprites, rng, pool, labels)
    centres, diameters = _place(rng, counts, most, size, look)
    images = _background(rng, batch, size, look)
    if look.photographs:
        use = torch.rand(batch, generator=rng, device=device) < look.pictured
        photos = photographs(look.photographs)
        images[use] = crop_backgrounds(rng, photos, int(use.sum()), size)
    if look.restyling is not None:
        images = look.restyling.vary(images, rng)
    present = torch.arange(most, device=device) < counts[:, None]
    labels = torch.where(present, labels, NOTHING)
    scene, slot = present.nonzero(as_tuple=True)  # one row per object from here on
    objects = _draw(
        sprites,
        rng,
        drawn[scene, slot],
        lenders[scene, slot],
        labels[scene, slot],
        centres[scene, slot],
        diameters[scene, slot],
        size,
        look,
    )
    labels = torch.where(labels >= names, DISTRACTOR, labels)
    visible = torch.zeros(batch, most, *size, device=device)
    for m in range(most):  # later objects lie on top
        scenes_with_object = scene[slot == m]
        layer = objects[slot == m]
        alpha = layer[:, 3:]
        images[scenes_with_object] = images[scenes_with_object] * (1 - alpha) + layer[:, :3]
        visible[scenes_with_object, :m] *= 1 - alpha
        visible[scenes_with_object, m] = alpha[:, 0]
    if look.distractors:
        visible, labels = _with_distractors(rng, visible, labels, look.distractors)
    if look.blurred:
        out_of_focus = F.avg_pool2d(F.pad(images, (1, 1, 1, 1), mode="replicate"), 3, 1)
        use = torch.rand(batch, 1, 1, 1, generator=rng, device=device) < look.blurred
        images = torch.where(use, out_of_focus, images)
    if look.grain:
        strength = torch.rand(batch, 1, 1, 1, generator=rng, device=device) ** 2 * look.grain
        images = images + strength * torch.randn(images.shape, generator=rng, device=device)
    return SceneBatch(images.clamp(0, 1), visible, labels)


def _styles(
    sprites: Sequence[Tensor], rng: torch.Generator, pool: Tensor, labels: Tensor
) -> Tensor:
    """Draw a style (B, M) for each object from those in `pool` that draw it."""
    has = sprites[-1][pool][:, :, 3].flatten(2).any(2)  # (pool, names)
    chance = torch.rand(*labels.shape, len(pool), generator=rng, device=rng.device)
    chance = chance.masked_fill(~has.T[labels], -1.0)
    return pool[chance.argmax(-1)]


def _with_distractors(
    rng: torch.Generator, visible: Tensor, labels: Tensor, share: float
) -> tuple[Tensor, Tensor]:
    """Add one slot: in some scenes a disc of background without any object."""
    batch, _, height, width = visible.shape
    device = rng.device
    tile = max(1, min(height, width) // 16)
    taken = F.max_pool2d(visible.amax(1, keepdim=True), tile, ceil_mode=True)
    taken = F.interpolate(F.max_pool2d(taken, 3, 1, 1), (height, width))[:, 0] > 0.05
    where = torch.rand(batch, height * width, generator=rng, device=device)
    middles = where.masked_fill(taken.flatten(1), -1).argmax(1)
    ys = torch.arange(height, device=device)[None, :, None] - (middles // width)[:, None, None]
    xs = torch.arange(width, device=device)[None, None, :] - (middles % width)[:, None, None]
    radius = torch.rand(batch, 1, 1, generator=rng, device=device) * 0.12 + 0.08
    disc = (ys**2 + xs**2 <= (radius * min(height, width)) ** 2) & ~taken
    has_disc = torch.rand(batch, generator=rng, device=device) < share
    has_disc &= disc.flatten(1).float().mean(1) > 0.01
    label = torch.where(has_disc, DISTRACTOR, NOTHING)
    extra = disc.float() * has_disc[:, None, None]
    return torch.cat([visible, extra[:, None]], 1), torch.cat([labels, label[:, None]], 1)


def _place(
    rng: torch.Generator, counts: Tensor, most: int, size: tuple[int, int], look: SceneStyle
) -> tuple[Tensor, Tensor]:
    """Draw centres (B, M, 2) as x, y in pixels and diameters (B, M), avoiding heavy overlap."""
    batch = len(counts)
    height, width = size
    tries = 16
    device = rng.device
    low, high = torch.tensor(
        [SIZES[c] for c in counts.tolist()], dtype=torch.float32, device=device
    ).T[:, :, None]
    diameters = (
        low + (high - low) * torch.rand(batch, most, generator=rng, device=rng.device)
    ) * min(size)
    inner = 1 - 2 * look.margin
    centres = look.margin + inner * torch.rand(
        batch, tries, most, 2, generator=rng, device=rng.device
    )
    centres = centres * torch.tensor([width, height], device=device)
    gaps = (centres[:, :, :, None] - centres[:, :, None]).norm(dim=-1)
    gaps = gaps / ((diameters[:, :, None] + diameters[:, None]) / 2)[:, None]
    present = torch.arange(most, device=device) < counts[:, None]
    pairs = (present[:, :, None] & present[:, None]).triu(1)[:, None]
    closest = gaps.masked_fill(~pairs, math.inf).flatten(2).amin(2)
    # the first good try, else the best one
    best = torch.where(
        closest >= look.apart, 100.0 - torch.arange(tries, device=device), closest.clamp(max=50)
    ).argmax(1)
    return centres[torch.arange(batch, device=device), best], diameters


def _draw(
    sprites: Sequence[Tensor],
    rng: torch.Generator,
    drawn: Tensor,
    lenders: Tensor,
    labels: Tensor,
    centres: Tensor,
    diameters: Tensor,
    size: tuple[int, int],
    look: SceneStyle,
) -> Tensor:
    """Render each of K objects on its own canvas, (K, 4, H, W), colours times alpha."""
    count = len(labels)
    device = rng.device

    def uniform() -> Tensor:
        return torch.rand(count, generator=rng, device=device)

    def normal(*more: int) -> Tensor:
        return torch.randn(count, *more, generator=rng, device=device)

    angle = look.turn * normal()
    anyway = uniform() < look.upside_down
    angle = torch.where(anyway, 2 * math.pi * uniform(), angle)
    flip = torch.where(uniform() < 0.5, -1.0, 1.0)
    stretch = (0.08 * normal()).exp().clamp(0.85, 1.18)
    gamma = (look.colour * normal()).exp().clamp(0.6, 1.6)
    mix = torch.diag_embed((look.colour * normal(3)).exp().clamp(0.6, 1.5))
    if look.odd:
        kind = uniform()
        hue = 2 * math.pi * uniform()
        hue = torch.where(kind < look.odd, hue, 0.0)
        # a rotation about the grey axis is a circulant matrix of three weights
        third = 2 * math.pi / 3
        row = torch.stack([1 / 3 + 2 / 3 * (hue + k * third).cos() for k in range(3)], -1)
        row = torch.where((kind < look.odd / 3)[:, None], 1 / 3, row)  # or no colour at all
        mix = torch.stack([row.roll(k, -1) for k in range(3)], -2) @ mix
    half, cos, sin = (t[:, None, None] for t in (diameters / 2, angle.cos(), angle.sin()))
    ys, xs = torch.meshgrid(
        torch.arange(size[0], device=device) + 0.5,
        torch.arange(size[1], device=device) + 0.5,
        indexing="ij",
    )
    dx = xs - centres[:, 0, None, None]
    dy = ys - centres[:, 1, None, None]
    u = (cos * dx + sin * dy) / half / (stretch * flip)[:, None, None]
    v = (cos * dy - sin * dx) / half * stretch[:, None, None]
    grid = torch.stack([u, v], -1)
    change = look.restyling
    if change is not None:
        grid = change.bend(grid, rng)
    level = torch.zeros(count, dtype=torch.long, device=device)
    for i in range(1, len(sprites)):  # the smallest level that is at least as large as the object
        level[diameters <= sprites[i].shape[-1]] = i
    out = torch.zeros(count, 4, *size, device=device)
    for i, sprite in enumerate(sprites):
        of_level = (level == i).nonzero()[:, 0]
        if len(of_level):
            texture = sprite[drawn[of_level], labels[of_level]]
            if change is not None:
                texture = change.borrow(
                    texture, sprites[-1][lenders[of_level], labels[of_level]], rng
                )
            texture = _recolour(texture, gamma[of_level], mix[of_level])
            if change is not None:
                texture = change.paint(texture, rng)
            out[of_level] = F.grid_sample(texture, grid[of_level], align_corners=False)
    if change is None:
        return out
    return change.outline(out, grid, rng)


def _recolour(texture: Tensor, gamma: Tensor, mix: Tensor) -> Tensor:
    """Change the colours of sprites (K, 4, S, S), premultiplied by alpha."""
    alpha = texture[:, 3:]
    colour = (texture[:, :3] / alpha.clamp(min=1e-4)).clamp(1e-4, 1)
    colour = (mix @ (colour ** gamma[:, None, None, None]).flatten(2)).view_as(colour)
    return torch.cat([colour.clamp(0, 1) * alpha, alpha], 1)


def _background(
    rng: torch.Generator, batch: int, size: tuple[int, int], look: SceneStyle
) -> Tensor:
    """Return random mixtures of gradients, soft noise and stripes, (B, 3, H, W)."""
    height, width = size
    ends = torch.rand(batch, 2, 3, generator=rng, device=rng.device)
    ys, xs = torch.meshgrid(
        torch.linspace(-1, 1, height, device=rng.device),
        torch.linspace(-1, 1, width, device=rng.device),
        indexing="ij",
    )
    angle = 2 * math.pi * torch.rand(batch, 1, 1, generator=rng, device=rng.device)
    along = angle.cos() * xs + angle.sin() * ys
    ramp = (0.5 + 0.4 * along)[:, None].clamp(0, 1)
    far = (ends[:, 0] + 0.5 * (ends[:, 1] - ends[:, 0]))[:, :, None, None]
    image = ends[:, 0, :, None, None] * (1 - ramp) + far * ramp
    for cells, most in ((3, 0.35), (8, 0.22), (24, 0.16)):
        weight = look.contrast * most * torch.rand(batch, 1, 1, 1, generator=rng, device=rng.device)
        coloured = torch.rand(batch, 1, 1, 1, generator=rng, device=rng.device)
        noise = torch.randn(batch, 4, cells, cells, generator=rng, device=rng.device)
        noise = noise[:, :1] * (1 - coloured) + noise[:, 1:] * coloured
        image = image + weight * F.interpolate(noise, size, mode="bilinear", align_corners=False)
    waves = torch.sin(along * (4 + 26 * torch.rand(batch, 1, 1, generator=rng, device=rng.device)))
    used = (torch.rand(batch, 1, 1, generator=rng, device=rng.device) < 0.3) * look.contrast
    waves = used * 0.15 * torch.rand(batch, 1, 1, generator=rng, device=rng.device) * waves
    return (image + waves[:, None]).clamp(0, 1)
