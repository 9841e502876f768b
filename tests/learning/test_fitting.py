"""Each rule of the fit changes what is learned, or which strength is chosen."""

import numpy as np
import pytest

from napari_maskinversion.learning.classifier import Classifier
from napari_maskinversion.learning.fitting import (
    Prior,
    Task,
    folds,
    prior_of,
    standard,
    temperature_of,
)

from .test_classifier import WORDS, decided, unit


def task(inputs, offsets, targets, strength):
    return Task(inputs, offsets, targets, offsets.shape[1], Prior(1.0, 1.0, strength))


def chosen(one, strengths, count=5):
    return one.cross_validate(np.arange(len(one.targets)) % count, strengths)[1]


def test_a_strength_is_chosen_that_is_right_not_one_that_is_sure_enough():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 2, 200)
    told = np.where(rng.random(200) < 0.95, targets, 1 - targets)
    words = 0.02 * np.eye(2)[told]  # Nearly always right, and never sure
    inputs = 2.0 * targets[:, None] - 1 + 1.5 * rng.normal(size=(200, 1))  # Right in three of four
    assert chosen(task(inputs, words, targets, 0.01), (1e-5, 10.0)) == 1e-5


def test_a_strength_is_chosen_for_all_classes_alike():
    """Learning helps many regions of a large class, and costs as large a share of a small one."""
    targets = np.repeat([0, 1], [380, 20])
    marked = np.concatenate([np.arange(380) % 10 < 6, np.arange(20) % 10 < 5])
    words = np.zeros((400, 2))
    words[np.arange(400), np.where((targets == 0) & marked, 1, targets)] = 1.0
    one = task(marked[:, None].astype(float), words, targets, 1e-4)
    fold = folds(np.arange(400) // 10, 5)
    assert one.cross_validate(fold, (1e-4, 1.0))[1] == 1e-4


def test_where_nothing_tells_strengths_apart_the_usual_one_is_chosen():
    targets = np.arange(40) % 2
    one = task(np.zeros((40, 3)), np.zeros((40, 2)), targets, 1.0)
    assert chosen(one, (0.1, 1.0, 10.0)) == 1.0


def test_words_that_know_the_frequent_class_only_are_no_better_than_chance():
    targets = np.repeat([0, 1], [95, 5])
    words = np.tile([3.0, 0.0], (100, 1))
    assert prior_of(words, targets).strength > 1


def test_what_is_learned_beside_surer_words_is_as_much_larger():
    rows, labels, images = decided()
    texts = unit(np.array([rows[[label == word for label in labels]].mean(0) for word in WORDS]))
    texts = unit(texts - 0.9 * texts.mean(0))
    ten, forty = (
        Classifier.of_words(WORDS, texts, scale).fit(rows, labels, images, validate=False)
        for scale in (10.0, 40.0)
    )
    assert np.abs(ten.learned).max() > 0.1
    np.testing.assert_allclose(forty.learned, 4 * ten.learned, atol=1e-2)


def test_few_right_answers_are_no_reason_to_be_surer():
    targets = np.arange(3)
    assert 0.8 < temperature_of(5.0 * np.eye(3)[targets], targets) < 1.2
    assert temperature_of(5.0 * np.eye(3)[targets], (targets + 1) % 3) > 1.5


def test_embeddings_and_all_features_together_count_alike():
    rng = np.random.default_rng(0)
    inputs = np.hstack([rng.normal(3, 0.01, (50, 4)), rng.normal(9, 5, (50, 2)), np.ones((50, 1))])
    centre, spread = standard(inputs, 4)
    scaled = (inputs - centre) * spread
    assert (scaled[:, :4] ** 2).sum(1).mean() == pytest.approx(1)
    assert (scaled[:, 4:] ** 2).sum(1).mean() == pytest.approx(2 / 3)


def test_half_of_what_softened_words_learn_is_kept_and_all_of_what_has_no_words():
    rng = np.random.default_rng(0)
    targets = rng.integers(0, 3, 60)
    inputs, offsets = rng.normal(size=(60, 4)) + targets[:, None], np.zeros((60, 3))
    offsets[:, :2] = 6 * np.eye(3)[targets][:, :2]  # The third class is "none of these"
    rows = np.arange(60)

    def learned(softer):
        # Offsets as much surer: the same is to be learned, in their unit.
        one = Task(inputs, offsets * softer, targets, 2, Prior(1.0, softer, 1.0))
        return one.learned(rows, 1.0) / softer

    np.testing.assert_allclose(learned(4.0)[:2], learned(1.0)[:2] / 2, atol=1e-3)
    np.testing.assert_allclose(learned(1.5)[:2], learned(1.0)[:2] / 1.5, atol=1e-3)
    np.testing.assert_allclose(learned(4.0)[2], learned(1.0)[2], atol=1e-3)
