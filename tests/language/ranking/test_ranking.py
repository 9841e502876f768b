"""Labels in the order in which they fit, and regions that words speak of."""

import math
from itertools import pairwise

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE
from napari_maskinversion.language.ranking.ranking import Ranking, find, rank
from tests.scenes import demo_model


def unit(rows):
    array = np.array(rows, dtype=np.float32)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


def test_labels_are_ranked_by_cosine_with_probabilities_and_margin():
    text = unit([[1, 0], [0, 1], [1, 1]])
    first, second = rank(unit([[1, 0.1], [0, 1]]), text, ["right", "up", "diagonal"], 10.0)
    assert first.labels == ("right", "diagonal", "up")
    assert second.labels[0] == "up"
    assert first.similarities[0] == pytest.approx(1 / math.sqrt(1.01), abs=1e-6)
    assert first.margin == pytest.approx(first.similarities[0] - first.similarities[1])
    weights = np.exp(10.0 * first.similarities.astype(float))
    np.testing.assert_allclose(first.probabilities, weights / weights.sum(), rtol=1e-5)


def test_equal_labels_keep_their_order_and_large_scales_stay_finite():
    text = unit([[1, 0], [1, 0], [0, 1]])
    (only,) = rank(unit([[1, 0]]), text, ["b", "a", "c"], 1e5)
    assert only.labels == ("b", "a", "c")
    np.testing.assert_allclose(only.probabilities, [0.5, 0.5, 0], atol=1e-6)


def test_one_label_has_no_margin():
    (only,) = rank(unit([[1, 0]]), unit([[0, 1]]), ["thing"], 100.0)
    assert math.isnan(only.margin)
    assert only.probabilities[0] == 1


def test_the_best_synonym_counts_for_its_label():
    text = unit([[1, 0], [0, 1], [1, 1], [-1, 0.2]])  # right, diagonal | up, left
    labels, owners = ["right", "up", "left"], [0, 1, 1, 2]
    first, second = rank(unit([[0, 1], [1, 0.9]]), text, labels, 10.0, owners=owners)
    assert first.labels == ("up", "left", "right")
    assert first.similarities[0] == pytest.approx(1)
    assert second.labels[0] == "up"
    assert second.similarities[0] == pytest.approx(1.9 / math.sqrt(1.81 * 2), abs=1e-6)
    # One probability a label, however many words it has.
    assert first.probabilities.shape == (3,)
    assert first.probabilities.sum() == pytest.approx(1)


def test_below_the_threshold_a_region_is_none_of_these_and_its_ranking_stays():
    text = unit([[1, 0], [0, 1]])
    regions = unit([[1, 0], [1, 1]])
    plain = rank(regions, text, ["right", "up"], 10.0)
    sure, doubtful = rank(regions, text, ["right", "up"], 10.0, threshold=0.8)
    assert (sure.suggestion, doubtful.suggestion) == ("right", NONE_OF_THESE)
    assert doubtful.labels == plain[1].labels == ("right", "up")
    np.testing.assert_array_equal(doubtful.probabilities, plain[1].probabilities)
    assert plain[1].suggestion == "right"
    # Reached is not below.
    assert rank(regions[:1], text, ["right", "up"], 10.0, threshold=1.0)[0].suggestion == "right"


def test_entropy_is_nothing_for_one_sure_label_and_largest_for_all_alike():
    (even,) = rank(unit([[1, 1, 1]]), np.eye(3, dtype=np.float32), ["a", "b", "c"], 10.0)
    assert even.entropy == pytest.approx(math.log(3), abs=1e-6)
    (sure,) = rank(unit([[1, 0, 0]]), np.eye(3, dtype=np.float32), ["a", "b", "c"], 1e4)
    assert sure.entropy == 0


# -- regions by an expression --------------------------------------------------------------------


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
        ("\u200b ", ("{}",), "expression is blank"),
        ("dog", ("a photo",), "'a photo' needs exactly one"),
    ],
)
def test_invalid_expressions_are_refused(words, templates, says):
    with pytest.raises(InputError, match=says):
        find(demo_model(), np.zeros((1, 3), np.float32), words, templates)


def ranking(*labels, **more):
    similarities = np.linspace(0.3, 0.1, len(labels), dtype=np.float32)
    return Ranking(labels, similarities, np.full(len(labels), 0.5, np.float32), **more)


@pytest.mark.parametrize(
    ("learned", "is_none", "threshold", "suggestion", "changed_from"),
    [
        ("dog", False, None, "dog", ""),
        ("cat", False, None, "cat", "dog"),
        ("dog", True, None, NONE_OF_THESE, "dog"),
        # No word is similar enough, so it is "none of these" unless decisions find another word.
        ("dog", False, 0.4, NONE_OF_THESE, ""),
        ("cat", True, 0.4, NONE_OF_THESE, ""),
        ("cat", False, 0.4, "cat", NONE_OF_THESE),
    ],
)
def test_decisions_change_a_suggestion_where_they_find_another_one_best(
    learned, is_none, threshold, suggestion, changed_from
):
    before = ranking("dog", "cat")
    others = {"dog", "cat"} - {learned}
    after = ranking(learned, *others, is_none=is_none, before=before).with_threshold(threshold)
    assert (after.suggestion, after.changed_from) == (suggestion, changed_from)
    assert after.before.threshold == threshold
    assert after.threshold is None  # what was learned is no cosine


def test_a_label_that_is_not_the_best_has_a_margin_below_zero():
    figures = ranking("dog", "cat").figures_of("cat")
    assert figures == pytest.approx((0.1, 0.5, -0.2), abs=1e-6)
    assert ranking("dog", "cat").figures_of("dog").margin == pytest.approx(0.2, abs=1e-6)
    assert all(map(math.isnan, ranking("dog", "cat").figures_of("wolf")))
