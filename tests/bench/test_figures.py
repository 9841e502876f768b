"""Shares and intervals."""

from __future__ import annotations

import numpy as np
import pytest

from napari_maskinversion.bench.measures.statistics import share


def test_regions_of_one_image_count_as_one_when_they_agree() -> None:
    right = np.repeat(np.arange(50) % 2, 4)  # four regions an image, all right or all wrong
    together = share(right, np.repeat(np.arange(50), 4).astype(str).tolist())
    apart = share(right, np.arange(200).astype(str).tolist())
    assert together["value"] == apart["value"] == 0.5
    # The binomial interval of 50 trials, and of 200.
    assert together["high"] - together["low"] == pytest.approx(2 * 1.96 * 0.5 / 50**0.5, rel=0.12)
    assert apart["high"] - apart["low"] == pytest.approx(2 * 1.96 * 0.5 / 200**0.5, rel=0.12)


def test_an_interval_covers_the_truth_nineteen_times_of_twenty() -> None:
    rng = np.random.default_rng(3)
    covered = 0
    for _ in range(200):
        chance = rng.beta(3, 1, 60)  # per image; mean 0.75
        interval = share(
            rng.random(180) < np.repeat(chance, 3), np.repeat(np.arange(60), 3).astype(str).tolist()
        )
        covered += interval["low"] <= 0.75 <= interval["high"]
    assert 180 <= covered <= 199


def test_the_average_is_over_classes_not_over_regions() -> None:
    true = np.array([0] * 98 + [1] * 2)
    interval = share(true == 0, np.arange(100).astype(str).tolist(), true)
    assert interval["value"] == 0.5
