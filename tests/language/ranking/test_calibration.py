"""Limits of flags chosen on regions whose names are known."""

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.ranking.calibration import calibrate

RNG = np.random.default_rng(0)
RIGHT = np.arange(300) < 200


def flagged(limits, margins, overlaps):
    return (margins < limits.margin) | (overlaps < limits.overlap)


def test_at_most_15_percent_of_the_right_answers_are_flagged_and_its_figures_are_true():
    margins = np.where(RIGHT, RNG.uniform(0.1, 0.5, 300), RNG.uniform(0, 0.3, 300))
    overlaps = np.where(RIGHT, RNG.uniform(0.3, 0.9, 300), RNG.uniform(0, 0.7, 300))
    limits = calibrate(margins, overlaps, RIGHT)
    flags = flagged(limits, margins, overlaps)
    assert (~flags[RIGHT]).mean() == pytest.approx(limits.right_kept) == pytest.approx(0.85)
    assert flags[~RIGHT].mean() == pytest.approx(limits.wrong_flagged)
    assert (limits.right, limits.wrong) == (200, 100)
    # No other division of the 15 % flags more wrong answers.
    for share in np.linspace(0.01, 0.15, 15):
        lowest = np.quantile(overlaps[RIGHT], share)
        rest = np.sort(margins[RIGHT & (overlaps >= lowest)])
        closest = rest[max(int(0.15 * 200) - (200 - len(rest)), 0)]
        others = (margins < closest) | (overlaps < lowest)
        assert others[~RIGHT].mean() <= limits.wrong_flagged + 0.011


@pytest.mark.parametrize("telling", ["margin", "overlap"])
def test_the_part_that_tells_right_from_wrong_gets_the_flags(telling):
    tells = np.where(RIGHT, RNG.uniform(0.5, 1, 300), RNG.uniform(0, 0.6, 300))
    noise = RNG.uniform(0, 1, 300)
    margins, overlaps = (tells, noise) if telling == "margin" else (noise, tells)
    limits = calibrate(margins, overlaps, RIGHT)
    assert limits.wrong_flagged > 0.85
    lows = {"margin": (margins, limits.margin), "overlap": (overlaps, limits.overlap)}
    values, limit = lows[telling]
    assert (values < limit)[RIGHT].mean() > 0.1


def test_where_overlaps_say_nothing_one_in_a_hundred_right_ones_does_not_fit():
    margins = np.where(RIGHT, 0.5, 0.1) + RNG.uniform(0, 0.01, 300)
    overlaps = RNG.uniform(0, 1, 300)
    limits = calibrate(margins, overlaps, RIGHT)
    assert (overlaps < limits.overlap)[RIGHT].sum() == 2


def test_more_of_the_right_answers_are_kept_if_asked():
    margins = np.where(RIGHT, RNG.uniform(0.1, 0.5, 300), RNG.uniform(0, 0.3, 300))
    overlaps = np.where(RIGHT, RNG.uniform(0.3, 0.9, 300), RNG.uniform(0, 0.7, 300))
    usual, more = calibrate(margins, overlaps, RIGHT), calibrate(margins, overlaps, RIGHT, keep=0.9)
    assert more.right_kept == pytest.approx(0.9)
    assert more.wrong_flagged < usual.wrong_flagged


def test_answers_without_heatmaps_or_wrong_ones_have_what_there_is():
    margins = RNG.uniform(0, 1, 300)
    limits = calibrate(margins, np.full(300, np.nan), RIGHT)
    assert limits.overlap is None
    assert (margins >= limits.margin)[RIGHT].mean() == pytest.approx(0.85)
    only_right = calibrate(margins[RIGHT], margins[RIGHT], RIGHT[RIGHT])
    assert only_right.wrong_flagged is None
    assert only_right.right_kept >= 0.85


def test_too_few_right_answers_are_refused():
    with pytest.raises(InputError, match="needs 20 regions whose suggestion was right.* are 19"):
        calibrate(np.ones(30), np.ones(30), np.arange(30) < 19)
