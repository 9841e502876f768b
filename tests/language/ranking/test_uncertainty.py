"""Answers that deserve a second look."""

import math

import numpy as np
import pytest

from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.language.ranking.ranking import Ranking
from napari_maskinversion.language.ranking.uncertainty import UncertaintyConfig, judge


def ranking(*probabilities, best=0.3, threshold=None):
    chances = np.array(probabilities, np.float32)
    similarities = best + (np.log(chances) - np.log(chances[0])).astype(np.float32) / 100
    return Ranking(tuple("abc"[: len(chances)]), similarities, chances, threshold)


SURE = {"tokens": 20.0, "overlap": 0.6, "ranking": ranking(0.9, 0.08, 0.02)}


def test_a_large_region_well_found_and_well_named_is_sure():
    verdict = judge(**SURE)
    assert (verdict.unsure, verdict.text, verdict.reasons) == (False, "", ())
    chances = np.array([0.9, 0.08, 0.02])
    assert verdict.entropy == pytest.approx(-(chances * np.log(chances)).sum(), abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"tokens": 1.34}, "unsure: small region 1.3 tokens"),
        ({"overlap": 0.21}, "unsure: low overlap 0.21"),
        ({"ranking": ranking(0.4, 0.35, 0.25)}, "unsure: low margin 0.001"),
        ({"ranking": ranking(0.9, 0.1, threshold=0.31)}, "unsure: below threshold 0.30"),
        ({"overlap": 0.1, "tokens": 1}, "unsure: small region 1.0 tokens, low overlap 0.10"),
    ],
)
def test_each_reason_has_its_number(changes, text):
    assert judge(**(SURE | changes)).text == text


def test_limits_are_reached_not_passed_and_can_be_turned_off():
    limits = UncertaintyConfig(tokens=20, overlap=0.6, odds=9)
    edge = SURE | {"ranking": ranking(0.9, 0.1)}
    assert not judge(**edge, config=UncertaintyConfig(tokens=20, overlap=0.6, odds=8.9)).unsure
    poor = {"tokens": 0.1, "overlap": 0.0, "ranking": ranking(0.5, 0.5)}
    assert len(judge(**poor, config=limits).reasons) == 3
    assert not judge(**poor, config=UncertaintyConfig(tokens=0, overlap=0, odds=0)).unsure


def test_what_there_is_none_of_is_no_reason():
    assert not judge(**(SURE | {"ranking": ranking(1.0)})).unsure
    bare = judge(**(SURE | {"ranking": None, "overlap": math.nan}))
    assert not bare.unsure
    assert math.isnan(bare.entropy)


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("tokens", -1, "greater than or equal to 0"),
        ("overlap", 1.1, "less than or equal to 1"),
        ("overlap", math.nan, "a finite number"),
        ("odds", "2", "a valid number"),
        ("odds", True, "a valid number"),
        ("odds", math.inf, "a finite number"),
    ],
)
def test_limits_that_cannot_work_are_refused(name, value, rule):
    with pytest.raises(ConfigError, match=f"^{name} must be {rule}; got {value!r}.$"):
        UncertaintyConfig(**{name: value})
