"""Labels in the order in which they fit."""

import math

import numpy as np
import pytest

from napari_maskinversion.retrieval.ranking import rank


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
