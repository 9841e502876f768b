from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from napari_maskinversion.demo_model.domains import (
    KINDS,
    NAMES,
    Picture,
    Views,
    data_folder,
    load,
    split_of,
)
from napari_maskinversion.demo_model.scenes import DISTRACTOR, generator


@pytest.fixture(scope="module")
def folder() -> Path:
    data = data_folder()
    if data is None:
        pytest.skip("NAPARI_MASKINVERSION_DATA names no folder with real images")
    return data


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


@pytest.mark.parametrize(
    ("share", "colours"),
    [(0.0, {"red", "blue"}), (0.5, {"red", "green", "blue"}), (1.0, {"red", "green"})],
)
def test_a_share_of_views_is_painted_where_a_class_is(share: float, colours: set[str]) -> None:
    pixels, regions = np.full((200, 200, 3), 120, np.uint8), np.zeros((200, 200), np.int32)
    pixels[50:150, 50:150], regions[50:150, 50:150] = (0, 255, 0), 1
    boxes, labels = np.array([[50, 50, 150, 150]]), np.array([9])  # that of the blue square
    green = Picture("nuclei", "green", pixels, boxes, labels, regions, regions > 0)
    views = Views([painted()], 0, [green], share)
    batch = views.draw(generator("train", 2), 60, (32, 32))
    seen = {
        ("red", "green", "blue")[int(image[:, masks[0] > 0.9].mean(1).argmax())]
        for image, masks in zip(batch.images, batch.visible, strict=True)
    }
    assert seen == colours


def test_aerial_pictures_are_split_by_tile_and_others_by_place() -> None:
    assert {split_of("aerial", f"tile3_{i:03d}", i) for i in range(9)} == {"test"}
    assert {split_of("aerial", f"tile7_{i:03d}", i) for i in range(9)} == {"train"}
    for kind in ("blood", "nuclei"):
        shares = [split_of(kind, "x", i) for i in range(100)]
        assert [shares.count(s) for s in ("test", "validation", "train")] == [20, 5, 75]


@pytest.mark.parametrize("kind", KINDS)
def test_real_pictures_of_the_splits_never_meet(folder: Path, kind: str) -> None:
    by_split = {s: load(folder, s, [kind]) for s in ("train", "validation", "test")}  # type: ignore[arg-type]
    names = [{p.name for p in pictures} for pictures in by_split.values()]
    assert all(names)
    assert sum(map(len, names)) == len(set().union(*names))
    for picture in by_split["test"]:
        assert {NAMES[i] for i in picture.labels} <= set(NAMES)
        y0, x0, y1, x1 = picture.boxes.T
        assert min((y1 - y0).min(), (x1 - x0).min()) > 0
        for index in range(0, len(picture.labels), 40):
            mask = picture.mask(index, 0, 0, *picture.pixels.shape[:2])
            ys, xs = np.nonzero(mask)
            assert y0[index] <= ys.min() <= ys.max() < y1[index]
            assert x0[index] <= xs.min() <= xs.max() < x1[index]
            if kind == "aerial":
                assert mask.sum() >= 400
