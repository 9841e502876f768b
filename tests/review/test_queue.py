"""What is looked at next."""

import time

import numpy as np
import pytest

from napari_maskinversion.base.errors import ConfigError
from napari_maskinversion.base.identity import RegionKey
from napari_maskinversion.language.ranking.ranking import entropy
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
    )


def decide(number, status="accepted", label="a"):
    return Decision(region=key(number), status=status, label=label if status == "accepted" else "")


def walk(found):
    """Rows as Next gives them until it is back at the first."""
    rows = [found.next()]
    while (row := found.next(rows[-1])) != rows[0]:
        rows.append(row)
    return rows


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        ("given", [0, 1, 2, 3, 4]),
        ("margin", [1, 3, 4, 0, 2]),
        ("entropy", [3, 1, 4, 0, 2]),
        ("smallest", [1, 3, 4, 2, 0]),
        ("largest", [0, 2, 4, 3, 1]),
        ("label", [2, 1, 3, 4, 0]),
    ],
)
def test_regions_come_in_the_order_asked_for(by, rows):
    found = queue()
    found.sort(by)
    assert found.rows.tolist() == rows == walk(found)
    backwards = [found.previous()]
    while len(backwards) < 5:
        backwards.append(found.previous(backwards[-1]))
    assert backwards == rows[::-1]
    assert [found.text(row) for row in rows] == [f"{n} of 5" for n in (1, 2, 3, 4, 5)]


def test_an_order_that_there_is_not_is_named():
    with pytest.raises(ConfigError, match="ordered by given, margin.*got 'size'"):
        queue().sort("size")


def test_after_a_decision_next_goes_on_from_where_one_was():
    found, made = queue(), Decisions()
    found.sort("margin")  # 1 3 4 0 2
    found.show(status=["undecided"])
    found.mark(made.decide(decide(13)))
    assert found.rows.tolist() == [1, 4, 0, 2]
    assert found.text(3) == "4 left"
    assert found.next(3) == 4
    assert found.previous(3) == 1
    assert found.text(4) == "2 of 4"
    found.mark(made.undo())
    assert found.text(3) == "2 of 5"


def test_when_all_is_decided_there_is_no_next():
    found, made = queue(), Decisions()
    found.show(status=["undecided"])
    for number in (10, 11, 12, 13, 14):
        found.mark(made.decide(decide(number, "skipped")))
    assert found.next(0) is found.next() is found.previous(0) is found.previous() is None
    assert found.text(0) == "0 left"
    assert found.counts() == {"undecided": 0, "accepted": 0, "rejected": 0, "skipped": 5}
    found.show(status=["skipped"])
    assert len(found) == 5


def test_the_label_is_the_accepted_one_or_else_the_suggestion():
    found, made = queue(), Decisions()
    found.mark(made.decide(decide(11, label="a longer label than any before")))
    found.show(label="a")
    assert found.rows.tolist() == [3]
    found.show(label="a longer label than any before", status=["accepted", "rejected"])
    assert found.rows.tolist() == [1]
    found.suggest(margins=[0] * 5, entropies=[0] * 5, labels=["c"] * 5)
    assert found.label(0) == "c"
    assert found.rows.tolist() == [1]  # what was accepted stands
    found.mark(made.undo())
    found.show(label="c")
    assert len(found) == 5


def test_new_suggestions_move_nothing_until_it_is_sorted_again():
    found = queue()
    found.sort("margin")
    found.suggest(margins=[0, 1, 2, 3, 4], entropies=[0] * 5, labels=["a"] * 5)
    assert found.rows.tolist() == [1, 3, 4, 0, 2]
    found.sort("margin")
    assert found.rows.tolist() == [0, 1, 2, 3, 4]


def test_decisions_of_an_earlier_day_are_taken_over_all_at_once():
    found, made = queue(), Decisions()
    made.decide(decide(10, label="z"), decide(14, "rejected"))
    made.decide(Decision(region=RegionKey(99), status="skipped"))  # no longer there
    found.load(made)
    assert found.counts() == {"undecided": 3, "accepted": 1, "rejected": 1, "skipped": 0}
    found.load(Decisions())
    assert found.counts()["undecided"] == 5
    assert found.label(0) == "b"


def test_values_for_another_number_of_regions_are_refused():
    with pytest.raises(ConfigError, match=r"has 5 regions; got values of shape \(2,\)"):
        queue().suggest(margins=[1, 2], entropies=[0] * 5, labels=["a"] * 5)


def test_an_empty_table_has_an_empty_queue():
    found = ReviewQueue([], areas=[], margins=[], entropies=[], labels=[])
    found.sort("label")
    assert found.next() is None


def test_entropy_is_that_of_the_probabilities():
    np.testing.assert_allclose(entropy(np.array([[0.5, 0.5], [1, 0]])), [np.log(2), 0])


def test_a_key_press_among_ten_thousand_regions_is_quick():
    count, rng = 10_000, np.random.default_rng(0)
    found = ReviewQueue(
        [key(n) for n in range(count)],
        areas=rng.random(count),
        margins=rng.random(count),
        entropies=rng.random(count),
        labels=[f"label {n % 60}" for n in range(count)],
    )
    made, row, took = Decisions(), None, []
    found.sort("margin")
    found.show(status=["undecided"])
    for _ in range(20):
        start = time.process_time()
        row = found.next(row)
        found.mark(made.decide(decide(row)))
        found.text(row)
        took.append(time.process_time() - start)
    assert sorted(took)[10] < 0.01  # a rough guard against loops over the regions
