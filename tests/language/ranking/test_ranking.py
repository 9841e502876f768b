"""Labels in the order in which they fit."""

import math
from time import perf_counter

import numpy as np
import pytest

from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE
from napari_maskinversion.language.ranking.ranking import rank


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
    np.testing.assert_allclose(only.probabilities, [0.5, 0.5, 0])


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


def test_five_thousand_labels_are_ranked_quickly():
    rng = np.random.default_rng(0)
    text = unit(rng.normal(size=(10_000, 64)))
    regions = unit(rng.normal(size=(200, 64)))
    labels = [f"label {number}" for number in range(5000)]
    owners = np.repeat(np.arange(5000), 2)
    begun = perf_counter()
    rankings = rank(regions, text, labels, 100.0, owners=owners)
    assert perf_counter() - begun < 5  # generous: a busy machine
    best = (regions @ text.T).reshape(200, 5000, 2).max(2)
    assert [one.labels[0] for one in rankings] == [labels[place] for place in best.argmax(1)]
