"""Flags of two parts: is the word sure, does the heatmap fit."""

import math

import numpy as np
import pytest

from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.language.ranking.calibration import Calibration
from napari_maskinversion.language.ranking.ranking import Ranking
from napari_maskinversion.language.ranking.uncertainty import UncertaintyConfig, judge

LIMITS = UncertaintyConfig(overlap=0.3)


def ranking(*probabilities, best=0.3, threshold=None):
    chances = np.array(probabilities, np.float32)
    similarities = best + (np.log(chances) - np.log(chances[0])).astype(np.float32) / 100
    return Ranking(tuple("abc"[: len(chances)]), similarities, chances, threshold)


SURE = {"tokens": 20.0, "overlap": 0.6, "ranking": ranking(0.9, 0.08, 0.02), "config": LIMITS}


def test_a_large_region_well_found_and_well_named_is_sure_and_fits():
    verdict = judge(**SURE)
    assert (verdict.sure, verdict.fits) == (True, True)
    assert (verdict.unsure, verdict.text, verdict.reasons) == (False, "", ())
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
    assert not judge(tokens=20, overlap=0.6, ranking=close, config=edge).unsure
    poor = {"tokens": 0.1, "overlap": 0.0, "ranking": ranking(0.5, 0.5)}
    assert len(judge(**poor, config=edge).reasons) == 3
    assert not judge(**poor, config=UncertaintyConfig(tokens=0, overlap=0, margin=0)).unsure


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
    assert not judge(**(SURE | {"ranking": ranking(1.0)})).unsure
    bare = judge(**(SURE | {"ranking": None, "overlap": math.nan}))
    assert (bare.unsure, bare.fits) == (False, None)
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
