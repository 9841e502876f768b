from __future__ import annotations

import numpy as np
import pytest

from napari_maskinversion.demo_model.domains import NAMES, Picture
from research.demo_model.painted import FIRST_SEED, PAINTED, painted_pictures


@pytest.fixture(scope="module")
def pictures() -> list[Picture]:
    return painted_pictures(2)


def test_as_many_are_painted_of_each_kind_and_no_two_are_alike(pictures: list[Picture]) -> None:
    assert [picture.kind for picture in pictures] == ["aerial", "aerial", "blood", "blood"]
    assert len({picture.pixels.tobytes() for picture in pictures}) == 4


def test_each_region_is_where_it_was_painted(pictures: list[Picture]) -> None:
    means = {}
    for picture in pictures:
        assert picture.regions is not None
        for index, label in enumerate(picture.labels.tolist()):
            area = picture.regions == index + 1
            y0, x0, y1, x1 = picture.boxes[index]
            assert area[y0:y1, x0:x1].sum() == area.sum() > 0
            means.setdefault(NAMES[label], []).append(picture.pixels[area].mean(0))
    water, land = np.array(means["water"]), np.array(means["unpaved land"])
    red, white = np.array(means["red blood cell"]), np.array(means["white blood cell"])
    assert water.max() < 30 < 120 < land.min()
    assert (red[:, 0] > red[:, 2]).all()
    assert (white[:, 2] > white[:, 0]).all()


def test_no_cell_of_a_smear_is_taken_for_background(pictures: list[Picture]) -> None:
    assert all(picture.known.all() for picture in pictures)


def test_sample_scenes_are_not_among_them() -> None:
    assert max(sample.seed for sample in PAINTED) < FIRST_SEED
