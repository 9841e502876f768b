from __future__ import annotations

import numpy as np
import pytest
import torch

from napari_maskinversion.demo_model.domains import Picture
from napari_maskinversion.demo_model.scenes import DISTRACTOR, generator
from research.demo_model.views import ViewPool, Views

CPU = torch.device("cpu")


def painted() -> Picture:
    """A red and a blue square on grey; the class of each is told by its colour."""
    pixels = np.full((200, 200, 3), 120, np.uint8)
    regions = np.zeros((200, 200), np.int32)
    pixels[20:80, 20:80], regions[20:80, 20:80] = (255, 0, 0), 1
    pixels[120:180, 110:190], regions[120:180, 110:190] = (0, 0, 255), 2
    boxes = np.array([[20, 20, 80, 80], [120, 110, 180, 190]])
    return Picture("nuclei", "painted", pixels, boxes, np.array([8, 9]), regions, regions > 0)


@pytest.mark.parametrize("side", [64, 32])  # masks of small views are cut at every few pixels
def test_a_view_shows_each_region_under_its_mask_and_label(side: int) -> None:
    batch = Views([painted()], first_label=5).draw(generator("train", 1), 40, (side, side))
    assert batch.images.shape == (40, 3, side, side)
    assert 0 <= batch.images.min() <= batch.images.max() <= 1
    seen = set()
    for image, masks, labels in zip(batch.images, batch.visible, batch.labels, strict=True):
        for mask, label in zip(masks, labels.tolist(), strict=True):
            if label >= 0:
                red, _, blue = image[:, mask > 0.9].mean(1).tolist()
                assert (red > blue) == (label == 5 + 8)
                seen.add(label)
            elif label == DISTRACTOR:
                red, _, blue = image[:, mask > 0.9].mean(1).tolist()
                assert abs(red - blue) < 0.35
                seen.add(label)
            else:
                assert not mask.any()
    assert seen == {13, 14, DISTRACTOR}


def test_the_seed_decides_the_views() -> None:
    views = Views([painted()], 0)
    first, again = (views.draw(generator("train", 3), 4, (32, 32)) for _ in range(2))
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.labels, again.labels)


def pool_at(turn: int, *before: int, workers: int = 0) -> ViewPool:
    pool = ViewPool(Views([painted()], 5), rows=8, fresh=2, workers=workers, seed=3)
    for other in (*before, turn):
        pool.turn_to(other, CPU)
    return pool


@pytest.mark.parametrize("workers", [0, 2])
def test_a_turn_of_the_pool_holds_the_same_views_however_it_was_reached(workers: int) -> None:
    begun, followed = pool_at(5), pool_at(5, 2, 3, 4, workers=workers)
    assert torch.equal(begun.pixels, followed.pixels)
    assert torch.equal(begun.labels, followed.labels)
    assert begun.pixels.flatten(1).any(1).all()


@pytest.mark.parametrize("size", [(64, 64), (128, 128), (160, 160), (48, 80)])
def test_views_of_the_pool_show_regions_under_their_masks(size: tuple[int, int]) -> None:
    batch = pool_at(0).draw(generator("train", 1), 40, size)
    assert batch.images.shape == (40, 3, *size)
    assert batch.visible.shape == (40, 5, *size)
    assert 0 <= batch.images.min() <= batch.images.max() <= 1
    seen = set()
    for image, masks, labels in zip(batch.images, batch.visible, batch.labels, strict=True):
        for mask, label in zip(masks, labels.tolist(), strict=True):
            if label >= 0 and (mask > 0.9).sum() > 20:
                red, _, blue = image[:, mask > 0.9].mean(1).tolist()
                assert (red > blue) == (label == 5 + 8)
                seen.add(label)
    assert seen == {13, 14}
