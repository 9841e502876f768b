"""What only training changes: drawings in made-up styles, and other backgrounds.

So an unseen art style is less of a surprise, and few photographs look like many. Every change
applies to a random share of the objects or images, which `Restyling` holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor

_DISCS: Final = 16  # of a cluttered background


@dataclass(frozen=True, slots=True, kw_only=True)
class Restyling:
    """Shares of objects and backgrounds that are changed, 0..1."""

    borrowed: float = 0.0  # the colours of the same thing in another style
    repainted: float = 0.0  # other saturation and contrast, colours shifted together
    flat: float = 0.0  # smoothed and posterised: no gradients, no fine lines
    shaded: float = 0.0  # lighter towards one side, as drawings in relief are
    textured: float = 0.0  # soft noise on the paint
    outlined: float = 0.0  # a line around it, or its own line taken off
    cut: float = 0.0  # one side hidden
    bent: float = 0.0  # standard deviation of a smooth displacement, in radii of the object
    varied: float = 0.0  # backgrounds with each change of `vary`

    def vary(self, images: Tensor, rng: torch.Generator) -> Tensor:
        """Make other backgrounds of (B, 3, H, W) in 0..1: colours, two halves, discs and rings."""

        def some() -> Tensor:
            return torch.rand(len(images), generator=rng, device=rng.device) < self.varied

        if not self.varied:
            return images
        images, use = images.clone(), some()
        images[use] = _recoloured(rng, images[use])
        use = some()
        other = images.roll(1, 0)[use]
        images[use] = torch.where(_half(rng, other), other, images[use])
        use = some()
        images[use] = _cluttered(rng, images[use])
        return images

    def bend(self, places: Tensor, rng: torch.Generator) -> Tensor:
        """Displace coordinates (K, H, W, 2) smoothly, differently for each drawing."""
        if not self.bent:
            return places
        cells = self.bent * torch.randn(len(places), 2, 4, 4, generator=rng, device=rng.device)
        moved = F.grid_sample(cells, places.clamp(-1, 1), align_corners=True)
        return places + moved.permute(0, 2, 3, 1)

    def borrow(self, texture: Tensor, other: Tensor, rng: torch.Generator) -> Tensor:
        """Paint some drawings (K, 4, S, S), colours times alpha, with the colours of `other`."""
        at = _some(len(texture), self.borrowed, rng)
        if not len(at):
            return texture
        alpha, around = texture[at, 3:], other[at, 3:]
        colour = texture[at, :3] / alpha.clamp(min=1e-4)
        shown = palette(other[at, :3] / around.clamp(min=1e-4), around)
        colour = repainted_as(colour, palette(colour, alpha), shown)
        texture = texture.clone()
        texture[at, :3] = colour.clamp(0, 1) * alpha
        return texture

    def paint(self, texture: Tensor, rng: torch.Generator) -> Tensor:
        """Repaint drawings (K, 4, S, S), colours times alpha; the shape stays."""
        alpha = texture[:, 3:]
        colour = texture[:, :3] / alpha.clamp(min=1e-4)

        def change(share: float, how: Callable[[Tensor, torch.Generator], Tensor]) -> None:
            at = _some(len(colour), share, rng)
            if len(at):
                colour[at] = how(colour[at], rng)

        change(self.flat, _posterised)
        change(self.repainted, _repainted)
        change(self.shaded, _shaded)
        change(self.textured, _textured)
        return torch.cat([colour.clamp(0, 1) * alpha, alpha], 1)

    def outline(self, layers: Tensor, places: Tensor, rng: torch.Generator) -> Tensor:
        """Change outlines of drawings on their canvas (K, 4, H, W), and hide one side of some."""
        layers = layers.clone()
        chance = torch.rand(len(layers), generator=rng, device=rng.device)
        lined = (chance < self.outlined).nonzero()[:, 0]
        bare = ((chance >= self.outlined) & (chance < 1.5 * self.outlined)).nonzero()[:, 0]
        if len(lined):
            layers[lined] = _outlined(layers[lined], rng)
        if len(bare):
            alpha = layers[bare, 3:]
            core = -F.max_pool2d(-alpha, 3, 1, 1)
            layers[bare] = layers[bare] * (core / alpha.clamp(min=1e-4)).clamp(max=1)
        at = _some(len(layers), self.cut, rng)
        if len(at):
            angle = 2 * math.pi * _uniform(rng, len(at), 1, 1)
            along = angle.cos() * places[at, ..., 0] + angle.sin() * places[at, ..., 1]
            keep = (12 * (0.05 + 0.6 * _uniform(rng, len(at), 1, 1) - along)).clamp(0, 1)
            layers[at] = layers[at] * keep[:, None]
        return layers


_HARD = {"repainted": 0.4, "flat": 0.3, "shaded": 0.2, "textured": 0.2, "outlined": 0.4}
_CALM = {"repainted": 0.2, "flat": 0.15, "shaded": 0.1, "textured": 0.05, "outlined": 0.15}
STRONG: Final = Restyling(borrowed=0.3, cut=0.15, bent=0.05, varied=0.3, **_HARD)
MILD: Final = Restyling(borrowed=0.3, cut=0.05, bent=0.03, varied=0.3, **_CALM)


def palette(colour: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation, (K, 3, 1, 1), of colours where there is alpha."""
    weight = alpha / alpha.sum((2, 3), keepdim=True).clamp(min=1e-4)
    mean = (weight * colour).sum((2, 3), keepdim=True)
    return mean, (weight * (colour - mean).square()).sum((2, 3), keepdim=True).sqrt()


def repainted_as(
    colour: Tensor, own: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]
) -> Tensor:
    """Move colours (K, 3, S, S) from one `palette` to another."""
    spread = (other[1] / own[1].clamp(min=1e-3)).clamp(max=4)
    return other[0] + (colour - own[0]) * spread


def _some(count: int, share: float, rng: torch.Generator) -> Tensor:
    """Draw the indices of a share of `count` objects."""
    return (torch.rand(count, generator=rng, device=rng.device) < share).nonzero()[:, 0]


def _uniform(rng: torch.Generator, *size: int) -> Tensor:
    return torch.rand(*size, generator=rng, device=rng.device)


def _posterised(colour: Tensor, rng: torch.Generator) -> Tensor:
    count = len(colour)
    levels = 2 + 3 * _uniform(rng, count, 1, 1, 1)
    shift = _uniform(rng, count, 3, 1, 1)
    smooth = F.avg_pool2d(colour, 3, 1, 1, count_include_pad=False)
    return ((smooth * levels + shift).floor() - shift + 0.5) / levels


def _repainted(colour: Tensor, rng: torch.Generator) -> Tensor:
    count = len(colour)
    grey = colour.mean(1, keepdim=True)
    changed = grey + (colour - grey) * (2 * _uniform(rng, count, 1, 1, 1))
    changed = 0.5 + (changed - 0.5) * (0.5 + _uniform(rng, count, 1, 1, 1))
    return changed + 0.24 * (_uniform(rng, count, 3, 1, 1) - 0.5)


def _shaded(colour: Tensor, rng: torch.Generator) -> Tensor:
    count, side = len(colour), colour.shape[-1]
    line = torch.linspace(-1, 1, side, device=rng.device)
    angle = 2 * math.pi * _uniform(rng, count, 1, 1, 1)
    ramp = angle.cos() * line + angle.sin() * line[:, None]
    return colour * (1 + 0.35 * _uniform(rng, count, 1, 1, 1) * ramp)


def _textured(colour: Tensor, rng: torch.Generator) -> Tensor:
    count, side = len(colour), colour.shape[-1]
    cells = torch.randn(count, 1, 10, 10, generator=rng, device=rng.device)
    noise = F.interpolate(cells, (side, side), mode="bilinear", align_corners=False)
    return colour * (1 + 0.25 * _uniform(rng, count, 1, 1, 1) * noise)


def _outlined(layers: Tensor, rng: torch.Generator) -> Tensor:
    """Add a line of one or two pixels, mostly dark."""
    count, alpha = len(layers), layers[:, 3:]
    thick = _uniform(rng, count, 1, 1, 1) < 0.3
    grown = torch.where(thick, F.max_pool2d(alpha, 5, 1, 2), F.max_pool2d(alpha, 3, 1, 1))
    dark = 0.35 * _uniform(rng, count, 1, 1, 1).expand(-1, 3, -1, -1)
    bright = _uniform(rng, count, 3, 1, 1)
    ink = torch.where(_uniform(rng, count, 1, 1, 1) < 0.7, dark, bright)
    return torch.cat([layers[:, :3] + (grown - alpha) * ink, grown], 1)


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
