"""A review takes the decisions that came with results, but none that was taken back here."""

import pytest

from napari_maskinversion.review.review import Review

from .decided import image, info, key, regions


@pytest.fixture
def file(tmp_path):
    return tmp_path / "cells.png"


def review_of(file):
    return Review(image(), regions(), info(), file=file)


def test_a_decision_that_was_undone_does_not_return_with_the_results_that_hold_it(file):
    with review_of(file) as review:
        review.reject(key(3))
        saved = review.saved()
        review.undo()
    with review_of(file) as review:
        assert review.take(saved, "results.npz") == 0
        assert review.decisions.status(key(3)) == "undecided"


def test_a_decision_undone_in_the_same_review_does_not_return_either(file):
    with review_of(file) as review:
        review.accept(key(3), "red cell")
        saved = review.saved()
        review.undo()
        assert review.take(saved, "results.npz") == 0
        assert not review.decisions


def test_decisions_about_regions_that_nobody_has_decided_about_here_are_taken(file, tmp_path):
    elsewhere = tmp_path / "elsewhere.png"
    elsewhere.touch()  # else it would be an image that was renamed
    with review_of(elsewhere) as review:
        review.accept(key(1), "red cell")
        review.accept(key(2), "white cell")
        saved = review.saved()
    with review_of(file) as review:
        review.reject(key(2))
        assert review.take(saved, "results.npz") == 1
        assert review.decisions.accepted() == {key(1): "red cell"}
        assert review.decisions.status(key(2)) == "rejected"
