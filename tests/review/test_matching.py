"""Decisions of earlier days find their regions, or say that they do not."""

import re

import numpy as np
import pytest

from napari_maskinversion.review.decisions import Decision
from napari_maskinversion.review.review import Review

from .decided import image, info, key, label_image, regions, square


@pytest.fixture
def review(tmp_path):
    """Open the review of one file with other regions or another image."""

    def opened(current=None, seed=0, **other):
        current = regions() if current is None else current
        return Review(image(seed), current, info(), file=tmp_path / "cells.png", **other)

    return opened


def labels(review):
    return {k.id: label for k, label in review.decisions.accepted().items()}


def test_regions_that_were_renumbered_keep_their_decisions(review):
    with review() as first:
        for number in range(1, 13):
            first.accept(key(number), f"cell {number}")
    with review(regions(13 - label_image().astype(int) * (label_image() > 0))[:0]) as nothing:
        assert len(nothing.restored.unfit) == 12
    turned = np.where(label_image() > 0, 13 - label_image().astype(int), 0)
    with review(regions(turned)) as again:
        assert labels(again) == {13 - n: f"cell {n}" for n in range(1, 13)}
        assert "Found under another id: 1 is now 12" in again.notes[1]
        assert "and 7 more" in again.notes[1]
        again.undo()
        assert 1 not in labels(again)
    with review() as back:
        assert set(labels(back)) == set(range(1, 12))


def test_an_outline_that_was_touched_up_keeps_its_decision_with_a_word(review):
    with review([square(1, 4, 4), square(2, 30, 30)]) as first:
        first.accept(key(1), "a")
        first.accept(key(2), "b")
    with review([square(1, 4, 5), square(2, 30, 30)]) as again:
        assert labels(again) == {1: "a", 2: "b"}
        assert again.restored.changed == (key(1),)
        assert any(
            "outline has changed since the decision, please check: region 1" in n
            for n in again.notes
        )
        again.accept(key(1), "c")
    with review([square(1, 4, 5), square(2, 30, 30)]) as then:
        assert labels(then) == {1: "c", 2: "b"}
        assert then.restored.changed == ()
        then.undo()
        assert labels(then) == {1: "a", 2: "b"}


def test_an_id_that_went_to_another_object_brings_no_label_along(review):
    with review([square(1, 4, 4), square(2, 30, 30), square(3, 50, 50)]) as first:
        first.accept(key(1), "a")
        first.reject(key(2))
        first.accept(key(3), "c")
    with review([square(1, 4, 40), square(2, 4, 4), square(3, 50, 60)]) as again:
        assert labels(again) == {2: "a"}
        said = [n for n in again.notes if "match no region" in n]
        assert "region 2 (rejected), 3 (c)" in said[0]
        assert "They stay in the file" in said[0]
    with review([square(1, 4, 4), square(2, 30, 30)]) as back:
        assert back.decisions.status(key(2)) == "rejected"


def test_a_region_drawn_anew_under_another_id_keeps_its_decision_where_half_overlaps(review):
    with review([square(1, 4, 4), square(2, 30, 30)]) as first:
        first.accept(key(1), "a")
        first.accept(key(2), "b")
    with review([square(7, 4, 6), square(8, 30, 37)]) as again:
        assert labels(again) == {7: "a"}
        assert any("1 is now 7" in note for note in again.notes)
        assert any("outline has changed since" in note for note in again.notes)
        assert any(
            "match no region here and were set aside: region 2 (b)" in n for n in again.notes
        )


def test_a_region_inside_one_that_was_deleted_gets_no_decision_and_none_gets_two(review):
    outer, inner = square(1, 10, 10, 50), square(2, 15, 15, 40)
    with review([outer, inner]) as first:
        first.accept(key(1), "cell")
    with review([inner]) as again:
        assert labels(again) == {}
    with review([square(3, 4, 4), square(4, 4, 5)]) as first:
        first.accept(key(3), "a")
        first.accept(key(4), "b")
    with review([square(9, 4, 5, 7)]) as again:
        assert labels(again) == {9: "b"}
        assert [one.region.id for one in again.restored.unfit] == [1, 3]


def test_a_region_that_was_there_gets_no_decision_about_another_whatever_its_id(review):
    with review([square(1, 4, 4), square(2, 4, 6)]) as first:
        first.accept(key(1), "a")
    for number in (1, 2, 3):
        with review([square(number, 4, 6)]) as again:
            assert labels(again) == {}
    with review([square(3, 5, 5)]) as drawn:
        assert labels(drawn) == {3: "a"}


def test_a_file_that_does_not_say_what_was_there_needs_a_larger_overlap(review, tmp_path):
    with review([square(1, 4, 4)]) as first:
        first.accept(key(1), "a")
    file = tmp_path / "cells.png.maskinversion.jsonl"
    file.write_text(re.sub(r'"regions": "\w+"', '"regions": ""', file.read_text()))
    with review([square(7, 4, 6)]) as half:
        assert labels(half) == {}
    with review([square(7, 4, 5)]) as most:
        assert labels(most) == {7: "a"}


def test_a_decision_about_a_region_that_is_there_is_given_to_no_other(review):
    with review([square(1, 4, 4)]) as first:
        first.accept(key(1), "a")
    with review([square(1, 4, 4), square(2, 4, 5)]) as again:
        assert labels(again) == {1: "a"}


def test_the_decision_made_for_this_very_outline_counts(review):
    with review([square(1, 4, 4)]) as first:
        first.accept(key(1), "small")
    with review([square(1, 4, 5)]) as second:
        second.accept(key(1), "moved")
    with review([square(1, 4, 4)]) as third:
        assert labels(third) == {1: "small"}
    with review([square(1, 4, 5)]) as fourth:
        assert labels(fourth) == {1: "moved"}


def test_two_regions_of_one_outline_keep_their_own_decisions(review):
    twins = [square(1, 4, 4), square(2, 4, 4)]
    with review(twins) as first:
        first.accept(key(1), "a")
        first.accept(key(2), "b")
    with review(twins) as again:
        assert labels(again) == {1: "a", 2: "b"}


def test_decisions_on_another_image_are_not_used_unless_asked_for(review):
    with review() as first:
        first.accept(key(1), "a")
    with review(seed=1) as other:
        assert not other.decisions
        assert "1 decision made on another image" in other.notes[0]
        assert "of the same size with other pixels" in other.notes[0]
        assert "kept in the file" in other.notes[0]
        other.accept(key(1), "b")
    with review(seed=1) as other:
        assert labels(other) == {1: "b"}
    with review() as first:
        assert labels(first) == {1: "a"}
    with review(seed=2, any_image=True) as third:
        assert labels(third) == {1: "b"}


@pytest.mark.parametrize("redrawn", [False, True])
def test_decisions_on_another_image_replace_none_on_this_one(review, redrawn):
    with review([square(1, 4, 4), square(2, 30, 30)]) as first:
        first.accept(key(1), "own")
    now = [square(1, 4, 5 if redrawn else 4), square(2, 30, 30)]
    with review(now, seed=1) as other:
        other.accept(key(1), "theirs")
        other.accept(key(2), "theirs")
    with review(now, any_image=True) as both:
        both.adopt()
    with review(now) as again:
        assert labels(again) == {1: "own", 2: "theirs"}


def test_an_undo_is_remembered_though_other_regions_of_the_step_are_gone(review):
    both = [square(1, 4, 4), square(2, 30, 30)]
    with review(both) as first:
        first.decide(*(Decision(region=key(n), status="accepted", label="a") for n in (1, 2)))
        first.undo()
    with review(both[:1]) as again:
        assert not again.decisions
        again.redo()
        assert labels(again) == {1: "a"}
    with review(both) as last:
        assert labels(last) == {1: "a"}
