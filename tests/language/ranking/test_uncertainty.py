"""Flags of two parts: is the word sure, does the heatmap fit."""

import math

import numpy as np
import pytest

from napari_maskinversion.base.errors import ConfigError, InputError
from napari_maskinversion.language.ranking.ranking import Ranking
from napari_maskinversion.language.ranking.uncertainty import (
    Calibration,
    UncertaintyConfig,
    calibrate,
    judge,
)

LIMITS = UncertaintyConfig(overlap=0.3)


def ranking(*probabilities, best=0.3, threshold=None):
    chances = np.array(probabilities, np.float32)
    similarities = best + (np.log(chances) - np.log(chances[0])).astype(np.float32) / 100
    return Ranking(tuple("abc"[: len(chances)]), similarities, chances, threshold)


SURE = {"tokens": 20.0, "overlap": 0.6, "ranking": ranking(0.9, 0.08, 0.02), "config": LIMITS}


def test_a_large_region_well_found_and_well_named_is_sure_and_fits():
    verdict = judge(**SURE)
    assert (verdict.sure, verdict.fits) == (True, True)
    assert (verdict.text, verdict.reasons) == ("", ())
    chances = np.array([0.9, 0.08, 0.02])
    assert verdict.entropy == pytest.approx(-(chances * np.log(chances)).sum(), abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "parts", "text"),
    [
        ({"tokens": 1.34}, (False, True), "doubtful: small region 1.3 tokens"),
        ({"overlap": 0.21}, (True, False), "does not fit: low overlap 0.21"),
        ({"ranking": ranking(0.4, 0.35, 0.25)}, (False, True), "doubtful: low margin 0.001"),
        (
            {"ranking": ranking(0.9, 0.1, threshold=0.31)},
            (False, True),
            "doubtful: below threshold 0.30",
        ),
        (
            {"overlap": 0.1, "tokens": 1},
            (False, False),
            "doubtful, does not fit: small region 1.0 tokens, low overlap 0.10",
        ),
    ],
)
def test_each_part_says_why_with_the_number(changes, parts, text):
    verdict = judge(**(SURE | changes))
    assert (verdict.sure, verdict.fits) == parts
    assert verdict.text == text


def test_limits_are_reached_not_passed_and_can_be_turned_off():
    close = ranking(0.6, 0.4)
    edge = UncertaintyConfig(tokens=20, overlap=0.6, margin=close.margin)
    assert not judge(tokens=20, overlap=0.6, ranking=close, config=edge).reasons
    poor = {"tokens": 0.1, "overlap": 0.0, "ranking": ranking(0.5, 0.5)}
    assert len(judge(**poor, config=edge).reasons) == 3
    assert not judge(**poor, config=UncertaintyConfig(tokens=0, overlap=0, margin=0)).reasons


def test_without_calibration_only_a_word_hardly_before_the_next_is_doubtful():
    usual = {"tokens": 20.0, "overlap": 0.01, "config": UncertaintyConfig()}
    assert judge(**usual, ranking=ranking(0.58, 0.42)).doubts == ("low margin 0.003",)
    assert judge(**usual, ranking=ranking(0.62, 0.38)).sure
    # Nobody measured what overlap this model's heatmaps should have.
    assert judge(**usual, ranking=ranking(0.62, 0.38)).fits is None


def test_calibrated_limits_stand_in_for_those_that_were_not_chosen():
    calibration = Calibration(
        margin=0.05, overlap=0.2, right=30, wrong=9, right_kept=0.85, wrong_flagged=0.8
    )
    assert UncertaintyConfig().filled(calibration) == UncertaintyConfig(margin=0.05, overlap=0.2)
    own = UncertaintyConfig(margin=0, overlap=0.4)
    assert own.filled(calibration) == own
    assert UncertaintyConfig().filled(None) == UncertaintyConfig()


def test_what_there_is_none_of_is_no_reason():
    assert not judge(**(SURE | {"ranking": ranking(1.0)})).reasons
    bare = judge(**(SURE | {"ranking": None, "overlap": math.nan}))
    assert (bare.reasons, bare.fits) == ((), None)
    assert math.isnan(bare.entropy)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("tokens", -1, "greater than or equal to 0"),
        ("overlap", 1.1, "less than or equal to 1"),
        ("overlap", math.nan, "a finite number"),
        ("margin", "2", "a valid number"),
        ("margin", True, "a valid number"),
        ("margin", math.inf, "a finite number"),
    ],
)
def test_limits_that_cannot_work_are_refused(name, value, rule):
    with pytest.raises(ConfigError, match=f"^{name} must be {rule}; got {value!r}.$"):
        UncertaintyConfig(**{name: value})


# -- calibration ---------------------------------------------------------------------------------

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
