from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from napari_maskinversion.demo_model.domains import (
    KINDS,
    NAMES,
    data_folder,
    load,
    split_of,
)


@pytest.fixture(scope="module")
def folder() -> Path:
    data = data_folder()
    if data is None:
        pytest.skip("NAPARI_MASKINVERSION_DATA names no folder with real images")
    return data


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
        for index in range(0, len(picture.labels), 200):
            mask = picture.mask(index, 0, 0, *picture.pixels.shape[:2])
            ys, xs = np.nonzero(mask)
            assert y0[index] <= ys.min() <= ys.max() < y1[index]
            assert x0[index] <= xs.min() <= xs.max() < x1[index]
            if kind == "aerial":
                assert mask.sum() >= 400
