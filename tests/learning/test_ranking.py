"""A vocabulary that names a classifier is ranked by it, on embeddings of its kind only."""

from types import SimpleNamespace

import numpy as np
import pytest

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.cli.captions import Words
from napari_maskinversion.language.labels.presets import vocabulary_of, with_classifier
from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from napari_maskinversion.learning.classifier_ranking import Ranker
from napari_maskinversion.results.settings import RunSettings
from napari_maskinversion.results.spaces import Space

from .test_classifier import WORDS, begun, decided, unit

MODEL = SimpleNamespace(logit_scale=10.0)


@pytest.fixture
def file(tmp_path):
    rows, labels, images = decided()
    words = begun()
    space = Space.planned(RunSettings(), "abc", 16).about
    made = type(words).of_words(words.vocabulary, words.texts, words.scale, space)
    return made.fit(rows, labels, images).save(tmp_path / "cells")


def ranked(vocabulary):
    rows, labels, _ = decided(seed=2)
    texts = unit(np.random.default_rng(3).normal(size=(len(vocabulary.words), 16)))
    return labels, Ranker(vocabulary).rank(MODEL, rows, texts)


def test_words_are_ranked_by_their_classifier(file):
    labels, rankings = ranked(vocabulary_of(str(file)))
    assert (
        np.mean([one.suggestion == label for one, label in zip(rankings, labels, strict=True)])
        > 0.95
    )
    assert all(np.all(np.diff(one.similarities) <= 0) for one in rankings)
    assert rankings[0].probabilities.sum() == pytest.approx(1, abs=1e-5)


def test_words_may_be_added_and_left_out(file):
    words = with_classifier(file, "parasite")
    _, rankings = ranked(words)
    assert {*rankings[0].labels} == {*WORDS, "parasite"}
    fewer = Vocabulary(WORDS[:2])
    _, rankings = ranked(Vocabulary(fewer.labels, learned=words.learned))
    assert {one.suggestion for one in rankings} == {*WORDS[:2]}


@pytest.mark.parametrize(
    ("changes", "weights", "problem"),
    [
        ({"steps": 20}, "abc", "steps 10 instead of 20"),
        ({"window": "whole"}, "abc", "window auto instead of whole"),
        ({}, "other", "other weights of demo instead of demo"),
        ({"model": "ViT-B-16"}, "other", "model demo instead of ViT-B-16"),
        ({"method": "crop"}, "abc", "method maskinversion instead of crop"),
    ],
)
def test_embeddings_of_another_kind_are_refused_by_name(file, changes, weights, problem):
    words = vocabulary_of(str(file))
    Ranker(words).check_space(RunSettings(), "abc")
    Ranker(words).check_space(RunSettings.of(model="elsewhere/demo"), "abc")
    with pytest.raises(InputError, match=rf"cells\.safetensors was trained on .*{problem}"):
        Ranker(words).check_space(RunSettings.of(**changes), weights)


def test_results_from_elsewhere_say_that_the_classifier_is_missing(file):
    words = vocabulary_of(str(file))
    gone = Vocabulary(words.labels, learned=type(words.learned)(**{
        "name": "cells.safetensors", "sha256": "", "decisions": 1
    }))  # fmt: skip
    with pytest.raises(InputError, match=r"do not say where the classifier cells\.safetensors"):
        ranked(gone)


def test_a_threshold_counts_where_the_classifier_learned_no_none_of_these(file):
    low, high = (ranked(vocabulary_of(str(file), (), limit))[1] for limit in (-1.0, 1.0))
    assert {one.suggestion for one in low} == {*WORDS}
    assert {one.suggestion for one in high} == {NONE_OF_THESE}


def test_none_of_these_is_no_word_of_a_classifier_that_did_not_learn_it(file):
    words = with_classifier(file, NONE_OF_THESE)
    with pytest.raises(InputError, match=r"cells\.safetensors learned no 'none of these'"):
        Ranker(words).check_space(RunSettings(), "abc")


def test_a_threshold_and_none_of_these_are_refused_with_the_words(file):
    with pytest.raises(InputError, match="leave out the label or the threshold"):
        with_classifier(file, NONE_OF_THESE, 0.3)


def test_prompts_are_those_of_the_classifier(file):
    with pytest.raises(InputError, match=r"--template cannot be used with .*cells\.safetensors"):
        Words(classifier=file, template=["a {}"]).vocabulary(None)
