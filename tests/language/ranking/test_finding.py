"""Regions that words speak of."""

import math
from itertools import pairwise

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.ranking.ranking import find
from tests.scenes import demo_model


def test_regions_come_best_first_with_the_margin_to_the_next():
    model = demo_model()
    regions = model.encode_text(["a house", "an apple", "a red apple on a table"])
    matches = find(model, regions, " an   apple ")
    assert matches[0].row == 1
    assert sorted(region.row for region in matches) == [0, 1, 2]
    expected = regions @ model.encode_text(["an apple"])[0]
    for region in matches:
        assert region.similarity == pytest.approx(expected[region.row], abs=1e-5)
    for region, then in pairwise(matches):
        assert region.margin == pytest.approx(region.similarity - then.similarity)
        assert region.margin >= 0
    assert math.isnan(matches[-1].margin)


def test_templates_are_averaged():
    model = demo_model()
    parts = model.encode_text(["a photo of a car.", "the car"])
    mean = parts.mean(0) / np.linalg.norm(parts.mean(0))
    (only,) = find(model, mean[None], "car", ("a photo of a {}.", "the {}"))
    assert only.similarity == pytest.approx(1, abs=1e-5)
    assert math.isnan(only.margin)


def test_equal_regions_have_no_margin_and_none_gives_none():
    model = demo_model()
    same = np.repeat(model.encode_text(["a car"]), 3, axis=0)
    matches = find(model, same, "a bus")
    assert sorted(region.row for region in matches) == [0, 1, 2]
    assert matches[0].margin == pytest.approx(0, abs=1e-6)
    assert find(model, same[:0], "a bus") == []


@pytest.mark.parametrize(
    ("words", "templates", "says"),
    [
        (" ", ("{}",), "expression is blank"),
        ("\u200b", ("{}",), "expression is blank"),
        ("dog", (), "no prompt template"),
        ("dog", ("a photo",), "'a photo' needs exactly one"),
    ],
)
def test_invalid_expressions_are_refused(words, templates, says):
    with pytest.raises(InputError, match=says):
        find(demo_model(), np.zeros((1, demo_model().embed_dim), np.float32), words, templates)


def test_embeddings_of_another_model_are_refused():
    with pytest.raises(InputError, match=r"needs embeddings of shape \(regions, \d+\); got"):
        find(demo_model(), np.zeros((1, 3), np.float32), "dog")
