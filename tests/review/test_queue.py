"""What is looked at next."""

import numpy as np
import pytest

from napari_maskinversion.base.identity import RegionKey
from napari_maskinversion.review.decisions import Decision, Decisions
from napari_maskinversion.review.queue import ReviewQueue

from .decided import key

NAN = float("nan")


def queue():
    return ReviewQueue(
        [key(n) for n in (10, 11, 12, 13, 14)],
        areas=[5, 1, 4, 2, 3],
        margins=[0.3, 0.1, NAN, 0.2, 0.2],
        entropies=[0.1, 0.3, NAN, 0.4, 0.2],
        labels=["b", "a", "", "a", "b"],
        embeddings=np.array([[1, 0, 0], [0.8, 0.6, 0], [0, 1, 0], [0, 0, 1], [0.6, 0.8, 0]]),
    )


def decide(number, status="accepted", label="a"):
    return Decision(region=key(number), status=status, label=label if status == "accepted" else "")


def walk(shown):
    """Rows as Next gives them until it is back at the first."""
    rows = [shown.next()]
    while (row := shown.next(rows[-1])) != rows[0]:
        rows.append(row)
    return rows


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("given", [0, 1, 2, 3, 4]),
        ("different", [3, 0, 2, 1, 4]),
        ("margin", [1, 3, 4, 0, 2]),
        ("entropy", [3, 1, 4, 0, 2]),
        ("smallest", [1, 3, 4, 2, 0]),
        ("largest", [0, 2, 4, 3, 1]),
        ("label", [2, 1, 3, 4, 0]),
    ],
)
def test_regions_come_in_the_order_asked_for(by, rows):
    shown = queue()
    shown.sort(by)
    assert shown.rows.tolist() == rows == walk(shown)
    backwards = [shown.previous()]
    while len(backwards) < 5:
        backwards.append(shown.previous(backwards[-1]))
    assert backwards == rows[::-1]
    assert [shown.text(row) for row in rows] == [f"{n} of 5" for n in (1, 2, 3, 4, 5)]


def test_after_a_decision_next_goes_on_from_where_one_was():
    shown, made = queue(), Decisions()
    shown.sort("margin")  # 1 3 4 0 2
    shown.show(status=["undecided"])
    shown.mark(made.decide(decide(13)))
    assert shown.rows.tolist() == [1, 4, 0, 2]
    assert shown.text(3) == "4 left"
    assert shown.next(3) == 4
    assert shown.previous(3) == 1
    assert shown.text(4) == "2 of 4"
    shown.mark(made.undo())
    assert shown.text(3) == "2 of 5"


def test_when_all_is_decided_there_is_no_next():
    shown, made = queue(), Decisions()
    shown.show(status=["undecided"])
    for number in (10, 11, 12, 13, 14):
        shown.mark(made.decide(decide(number, "skipped")))
    assert shown.next(0) is shown.next() is shown.previous(0) is shown.previous() is None
    assert shown.text(0) == "0 left"
    assert shown.counts() == {"undecided": 0, "accepted": 0, "rejected": 0, "skipped": 5}
    shown.show(status=["skipped"])
    assert len(shown) == 5


def test_the_label_is_the_accepted_one_or_else_the_suggestion():
    shown, made = queue(), Decisions()
    shown.mark(made.decide(decide(11, label="a longer label than any before")))
    shown.show(label="a")
    assert shown.rows.tolist() == [3]
    shown.show(label="a longer label than any before", status=["accepted", "rejected"])
    assert shown.rows.tolist() == [1]
    shown.suggest(margins=[0] * 5, entropies=[0] * 5, labels=["c"] * 5)
    assert shown.label(0) == "c"
    assert shown.rows.tolist() == [1]  # what was accepted stands
    shown.mark(made.undo())
    shown.show(label="c")
    assert len(shown) == 5


def test_new_suggestions_move_nothing_until_it_is_sorted_again():
    shown = queue()
    shown.sort("margin")
    shown.suggest(margins=[0, 1, 2, 3, 4], entropies=[0] * 5, labels=["a"] * 5)
    assert shown.rows.tolist() == [1, 3, 4, 0, 2]
    shown.sort("margin")
    assert shown.rows.tolist() == [0, 1, 2, 3, 4]


def test_decisions_of_an_earlier_day_are_taken_over_all_at_once():
    shown, made = queue(), Decisions()
    made.decide(decide(10, label="z"), decide(14, "rejected"))
    made.decide(Decision(region=RegionKey(99), status="skipped"))  # no longer there
    shown.load(made)
    assert shown.counts() == {"undecided": 3, "accepted": 1, "rejected": 1, "skipped": 0}
    shown.load(Decisions())
    assert shown.counts()["undecided"] == 5
    assert shown.label(0) == "b"


def test_what_looks_least_like_the_decided_regions_comes_first():
    shown, made = queue(), Decisions()
    made.decide(decide(13), decide(12))  # the third and second axis
    shown.load(made)
    shown.sort("different")
    assert shown.rows.tolist()[:3] == [0, 1, 4]


def test_an_empty_table_has_an_empty_queue():
    shown = ReviewQueue(
        [], areas=[], margins=[], entropies=[], labels=[], embeddings=np.zeros((0, 3))
    )
    shown.sort("label")
    assert shown.next() is None
