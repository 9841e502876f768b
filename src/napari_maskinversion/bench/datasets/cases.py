"""Test cases with known regions: composed scenes, windows of real images, bundled drawings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...demo_model.backgrounds import MEASURING
from ...demo_model.domains import Picture
from ...demo_model.scenes import SceneStyle, compose, generator

SIDE: Final = 256  # pixels of a scene
LEAST: Final = 0.008  # visible share of a scene that every object needs
LOOK: Final = SceneStyle(photographs=MEASURING)
CONTEXT: Final = 2.0  # a window's side over the longer side of the region's box
LEAST_WINDOW: Final = {"aerial": 96, "blood": 64, "nuclei": 32}  # pixels


@dataclass(frozen=True, slots=True)
class Case:
    """One image with its regions."""

    image: NDArray[np.uint8]  # (H, W, 3), uint8
    masks: NDArray[np.bool_]  # (M, H, W), bool
    labels: NDArray[np.int64]  # (M,), int64. Index into the candidate names.
    source: str  # Where it comes from; cases of one source are not independent


def labels_of(cases: Iterable[Case]) -> NDArray[np.int64]:
    """Return the labels of all regions."""
    return np.concatenate([case.labels for case in cases])


def sources_of(cases: Iterable[Case]) -> list[str]:
    """Return the source of each region."""
    return [case.source for case in cases for _ in case.labels]


def draw_scenes(
    sprites: Sequence[Tensor],
    count: int,
    objects: int,
    *,
    split: str = "test",
    first_seed: int = 0,
    labels: NDArray[np.int64] | None = None,
) -> Iterator[Case]:
    """Compose scenes of 256 x 256 px from seeds of a split."""
    seed = first_seed
    for _ in range(count):
        while True:
            counts = torch.tensor([objects])
            scene = compose(sprites, generator(split, seed), counts, (SIDE, SIDE), look=LOOK)
            seed += 1
            masks = scene.visible[0].numpy() > 0.5
            if masks.mean((1, 2)).min() >= LEAST:
                break
        image = (scene.images[0].permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()
        drawn = scene.labels[0].numpy()
        yield Case(image, masks, drawn if labels is None else labels[drawn], f"{split} {seed - 1}")


def draw_windows(pictures: Iterable[Picture], per_class: int, *, seed: int = 0) -> Iterator[Case]:
    """Choose up to ``per_class`` regions of each class at random, each in its own window.

    Labels are indices into `demo_model.domains.NAMES`.
    """
    places: dict[int, list[tuple[Picture, int]]] = {}
    for picture in pictures:
        for index, label in enumerate(picture.labels.tolist()):
            places.setdefault(label, []).append((picture, index))
    rng = np.random.default_rng(seed)
    for label in sorted(places):
        chosen = rng.permutation(len(places[label]))[:per_class]
        yield from (_window(*places[label][int(i)]) for i in chosen)


def _window(picture: Picture, index: int) -> Case:
    height, width = picture.pixels.shape[:2]
    y0, x0, y1, x1 = picture.boxes[index].tolist()
    side = round(max(LEAST_WINDOW[picture.kind], CONTEXT * max(y1 - y0, x1 - x0)))
    side = min(side, height, width)
    y = int(np.clip((y0 + y1 - side) // 2, 0, height - side))
    x = int(np.clip((x0 + x1 - side) // 2, 0, width - side))
    mask = picture.mask(index, y, x, side, side) > 0.5
    pixels = picture.pixels[y : y + side, x : x + side]
    return Case(pixels, mask[None], picture.labels[index : index + 1], picture.name)
