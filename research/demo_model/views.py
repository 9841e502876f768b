"""Random views of pictures with known regions, and the pool of them that training draws from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from napari_maskinversion.demo_model.domains import Picture
from napari_maskinversion.demo_model.scene_words import REAL
from napari_maskinversion.demo_model.scenes import DISTRACTOR, NOTHING, SceneBatch

SLOTS: Final = 4  # regions of a view; one more is for a piece of background
PAINTED_SHARE: Final = 0.2
SIDE: Final = 160  # pixels of the views in a pool
AHEAD: Final = 2  # batches that each process cuts ahead
SMALLEST: Final = 0.004  # share of a view that a region needs
# Land cover is the hardest: three views in five.
WEIGHTS: Final = {"aerial": 3, "blood": 2, "nuclei": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewStyle:
    """How views are cut, by kind of picture."""

    context: Mapping[str, tuple[float, float]]  # sides over the longer side of the region's box
    least: Mapping[str, int]  # pixels of a side
    most: Mapping[str, int]
    distractors: float = 0.4


PLAIN: Final = ViewStyle(  # of measurements
    context={"aerial": (1.0, 3.5), "blood": (1.2, 4.0), "nuclei": (1.5, 6.0)},
    least={"aerial": 72, "blood": 48, "nuclei": 24},
    most={"aerial": 480, "blood": 420, "nuclei": 256},
)
WIDER: Final = ViewStyle(  # of training
    context={"aerial": (1.1, 5.0), "blood": (1.3, 4.5), "nuclei": (1.6, 6.5)},
    least=PLAIN.least,
    most={"aerial": 560, "blood": 460, "nuclei": 256},
)


def _places(pictures: Sequence[Picture]) -> dict[int, list[tuple[Picture, int]]]:
    """Return by label where it is seen: pictures and places in their tables of regions."""
    places: dict[int, list[tuple[Picture, int]]] = {}
    for picture in pictures:
        for place, label in enumerate(picture.labels.tolist()):
            places.setdefault(label, []).append((picture, place))
    return places


class Views:
    """Random views of pictures, with balanced classes, or `weights` by kind.

    ``share`` of the views of a class are of ``painted`` pictures, if those show it.
    """

    def __init__(
        self,
        pictures: Sequence[Picture],
        first_label: int,
        painted: Sequence[Picture] = (),
        share: float = PAINTED_SHARE,
        weights: Mapping[str, int] | None = None,
    ) -> None:
        self.first_label = first_label
        self.share = share
        self.places = _places(pictures)
        self.painted = _places(painted)
        self.classes = sorted(
            label for label in self.places for _ in range((weights or {}).get(REAL[label].group, 1))
        )

    def draw(self, rng: torch.Generator, count: int, size: tuple[int, int]) -> SceneBatch:
        """Return `count` plain views of (H, W) = `size`, their light a little varied."""
        chance = torch.rand(count, 12, generator=rng, device=rng.device).cpu().numpy()
        views = [self.view(row, size, PLAIN) for row in chance]
        images, masks, labels = (
            torch.from_numpy(np.stack(part)).to(rng.device) for part in zip(*views, strict=True)
        )
        return SceneBatch(_grained(_tinted(images, rng, 0.12), rng), masks, labels)

    def view(
        self, row: NDArray[np.float32], size: tuple[int, int], style: ViewStyle
    ) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]:
        """Cut a view by twelve numbers in 0..1: pixels (3, H, W), masks (5, H, W), labels (5,)."""
        shown = self.classes[int(row[0] * len(self.classes)) % len(self.classes)]
        painted = row[10] < self.share and shown in self.painted
        places = self.painted[shown] if painted else self.places[shown]
        picture, r = places[int(row[1] * len(places)) % len(places)]
        kind, (height, width) = picture.kind, picture.pixels.shape[:2]
        y0, x0, y1, x1 = picture.boxes[r]
        low, high = style.context[kind]
        side = max(y1 - y0, x1 - x0) * (low + (high - low) * float(row[2]) ** 1.5)
        side = int(np.clip(side, style.least[kind], min(style.most[kind], height, width)))
        # the region's centre lies anywhere in the middle half of the view
        y = int((y0 + y1) / 2 - side * (0.25 + 0.5 * row[3]))
        x = int((x0 + x1) / 2 - side * (0.25 + 0.5 * row[4]))
        y, x = int(np.clip(y, 0, height - side)), int(np.clip(x, 0, width - side))
        inside = np.flatnonzero(
            (picture.boxes[:, 0] < y + side)
            & (picture.boxes[:, 2] > y)
            & (picture.boxes[:, 1] < x + side)
            & (picture.boxes[:, 3] > x)
        )
        step = max(1, side // (2 * max(size)))  # masks need no finer pixels
        shown_masks = [(picture.mask(int(i), y, x, side, side, step), int(i)) for i in inside[:64]]
        shown_masks = [(m, i) for m, i in shown_masks if m.mean() > SMALLEST]
        shown_masks.sort(key=lambda pair: (pair[1] != r, -pair[0].sum()))
        shown_masks = shown_masks[:SLOTS]
        labels = np.full(SLOTS + 1, NOTHING, np.int64)
        free = ~picture.known[y : y + side : step, x : x + side : step]
        masks = np.zeros((SLOTS + 1, *free.shape), np.float32)
        for slot, (mask, i) in enumerate(shown_masks):
            masks[slot], labels[slot] = mask, picture.labels[i] + self.first_label
        if picture.kind != "aerial" and row[5] < style.distractors:
            at = np.argwhere(free)
            if len(at):
                cy, cx = at[int(row[6] * len(at)) % len(at)]
                ys, xs = np.ogrid[: len(free), : len(free)]
                radius = len(free) * (0.08 + 0.12 * float(row[7]))
                disc = ((ys - cy) ** 2 + (xs - cx) ** 2 <= radius**2) & free
                if disc.mean() > 0.01:
                    masks[-1], labels[-1] = disc, DISTRACTOR
        pixels = picture.pixels[y : y + side, x : x + side].transpose(2, 0, 1)
        turns = int(row[9] * 4)

        def placed(window: NDArray[Any]) -> Tensor:
            """Mirror and turn a window, then scale it to the view."""
            window = window[:, :, ::-1] if row[8] < 0.5 else window
            window = np.ascontiguousarray(np.rot90(window, turns, (1, 2)))
            stack = torch.from_numpy(window)[None]
            return F.interpolate(stack, size, mode="bilinear", antialias=True)[0].float()

        return placed(pixels).div(255).numpy(), placed(masks).numpy(), labels


def _tinted(images: Tensor, rng: torch.Generator, strength: float) -> Tensor:
    """Vary light and colour of images (B, 3, H, W) in 0..1."""
    three, one = (
        torch.randn(len(images), n, 1, 1, generator=rng, device=rng.device) for n in (3, 1)
    )
    return (images * (strength * (one + 0.5 * three)).exp()).clamp(0, 1)


def _grained(images: Tensor, rng: torch.Generator) -> Tensor:
    """Add noise of up to 0.05."""
    grain = torch.rand(len(images), 1, 1, 1, generator=rng, device=rng.device) ** 2
    noise = torch.randn(images.shape, generator=rng, device=rng.device)
    return (images + 0.05 * grain * noise).clamp(0, 1)


class _Cuts(Dataset[tuple[Tensor, Tensor]]):
    """View number n of a training, cut by numbers that the seed and n decide."""

    def __init__(self, views: Views, seed: int) -> None:
        self.views, self.seed = views, seed

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        chance = np.random.default_rng([self.seed, number]).random(12, dtype=np.float32)
        image, masks, labels = self.views.view(chance, (SIDE, SIDE), WIDER)
        both = np.concatenate([image, masks])
        pixels = (both * 255 + 0.5).clip(0, 255).astype(np.uint8)
        return torch.from_numpy(pixels), torch.from_numpy(labels)


class ViewPool:
    """The last `rows` views of a training on its device; every turn replaces the oldest `fresh`.

    Views are cut by other processes, if `workers` says so. What is in the pool at a turn depends on
    nothing but the seed.
    """

    def __init__(self, views: Views, *, rows: int, fresh: int, workers: int, seed: int) -> None:
        self.rows, self.fresh, self.workers = rows, fresh, workers
        self.views, self._cuts = views, _Cuts(views, seed)
        self._turn = -1
        self._coming: Iterator[Any] = iter(())
        self.pixels = self.labels = torch.zeros(0)

    def turn_to(self, turn: int, device: torch.device) -> None:
        """Hold the views of a turn, those from number `turn` times `fresh` on."""
        if turn == self._turn:
            return
        if turn != self._turn + 1 or turn == 0:
            self._begin(turn, device)
        else:
            self._take((turn - 1) * self.fresh % self.rows)
        self._turn = turn

    def _begin(self, turn: int, device: torch.device) -> None:
        first = turn * self.fresh
        loader = DataLoader(
            self._cuts,
            batch_size=self.fresh,
            sampler=range(first, 2**62),
            num_workers=self.workers,
            prefetch_factor=AHEAD if self.workers else None,
            generator=torch.Generator(),  # the global one stays as it is
        )
        self._coming = iter(loader)
        self.pixels = torch.zeros(self.rows, 4 + SLOTS, SIDE, SIDE, dtype=torch.uint8).to(device)
        self.labels = torch.zeros(self.rows, SLOTS + 1, dtype=torch.long, device=device)
        for row in range(0, self.rows, self.fresh):
            self._take((first + row) % self.rows)

    def _take(self, row: int) -> None:
        pixels, labels = next(self._coming)
        self.pixels[row : row + self.fresh] = pixels.to(self.pixels.device)
        self.labels[row : row + self.fresh] = labels.to(self.labels.device)

    def draw(self, rng: torch.Generator, count: int, size: tuple[int, int]) -> SceneBatch:
        """Return views of (H, W) = `size` in other light, half of the square ones turned."""
        at = torch.randint(self.rows, (count,), generator=rng, device=rng.device)
        both, labels = self.pixels[at].float() / 255, self.labels[at]
        if size[0] == size[1]:
            side = min(SIDE, round(math.sqrt(2) * size[0]))  # enough for a turned view
            if side != SIDE:
                both = F.interpolate(both, (side, side), mode="bilinear", antialias=True)
            both = _turned(both, rng, size)
        else:
            both = F.interpolate(both, size, mode="bilinear", antialias=True)
        masks = both[:, 3:]
        labels = torch.where(masks.mean((2, 3)) > SMALLEST, labels, NOTHING)
        images = _relit(_tinted(both[:, :3], rng, 0.22), rng)
        return SceneBatch(_grained(images, rng), masks, labels)


def _turned(both: Tensor, rng: torch.Generator, size: tuple[int, int]) -> Tensor:
    """Mirror half of square views, and turn half by any angle, without their corners."""
    count, device = len(both), rng.device
    chance = torch.rand(3, count, generator=rng, device=device)
    turned = chance[0] < 0.5
    angle = torch.where(turned, 2 * math.pi * chance[1], 0.0)
    zoom = torch.where(turned, 1 / (angle.cos().abs() + angle.sin().abs()), 1.0)
    flip = torch.where(chance[2] < 0.5, -1.0, 1.0)
    cos, sin, zero = zoom * angle.cos(), zoom * angle.sin(), torch.zeros_like(angle)
    rows = [torch.stack([cos * flip, -sin, zero], -1), torch.stack([sin * flip, cos, zero], -1)]
    grid = F.affine_grid(torch.stack(rows, 1), [count, both.shape[1], *size], align_corners=False)
    return F.grid_sample(both, grid, padding_mode="border", align_corners=False)


def _relit(images: Tensor, rng: torch.Generator) -> Tensor:
    """Change saturation, contrast and gamma of some images, and blur some."""
    count, device = len(images), rng.device
    some, soft = torch.rand(2, count, 1, 1, 1, generator=rng, device=device)
    strength = torch.randn(3, count, 1, 1, 1, generator=rng, device=device) * (some < 0.6)
    saturation, contrast, gamma = strength * torch.tensor([0.35, 0.2, 0.2], device=device).view(
        3, 1, 1, 1, 1
    )
    grey = images.mean(1, keepdim=True)
    images = grey + (images - grey) * saturation.exp()
    mean = images.mean((1, 2, 3), keepdim=True)
    images = mean + (images - mean) * contrast.exp()
    images = images.clamp(1e-4, 1) ** gamma.exp()
    blurred = F.avg_pool2d(F.pad(images, (1, 1, 1, 1), mode="replicate"), 3, 1)
    return torch.where(soft < 0.2, blurred, images)
