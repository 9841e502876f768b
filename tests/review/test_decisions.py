"""What was decided, and every step of it taken back and done again."""

from dataclasses import FrozenInstanceError

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from napari_maskinversion.base.errors import InputError
from napari_maskinversion.review.decisions import Decision, Decisions, Suggestion

from .decided import key


def accept(number, label="cell"):
    return Decision(region=key(number), status="accepted", label=label)


def test_a_decision_says_what_when_and_on_whose_suggestion():
    taken = Suggestion(label="cell", rank=2, similarity=0.25, by="text")
    one = Decision(region=key(3), status="accepted", label="cell", suggestion=taken)
    assert one.suggestion.rank == 2
    assert one.time.endswith("Z")
    assert "T" in one.time
    with pytest.raises(FrozenInstanceError):
        one.label = "other"


@pytest.mark.parametrize(
    ("status", "label", "said"),
    [
        ("accepted", "  ", "Region 3 cannot be accepted without a label"),
        ("rejected", "cell", "Region 3 is rejected and cannot have a label"),
        ("undecided", "", "one of accepted, rejected, skipped"),
    ],
)
def test_a_decision_that_makes_no_sense_is_refused(status, label, said):
    with pytest.raises(InputError, match=said):
        Decision(region=key(3), status=status, label=label)


def test_the_newest_decision_about_a_region_counts():
    made = Decisions()
    made.decide(accept(1, "a"))
    made.decide(accept(1, "b"))
    made.decide(Decision(region=key(2), status="skipped"))
    assert made.accepted() == {key(1): "b"}
    assert made.status(key(2)) == "skipped"
    assert made.status(key(9)) == "undecided"


def test_several_regions_in_one_step_go_back_in_one():
    made = Decisions()
    made.decide(accept(1))
    made.decide(accept(1, "b"), accept(2, "b"), accept(3, "b"))
    changed = made.undo()
    assert {change.region for change in changed} == {key(1), key(2), key(3)}
    assert made.accepted() == {key(1): "cell"}


def test_a_new_decision_ends_redo():
    made = Decisions()
    made.decide(accept(1))
    made.undo()
    made.decide(accept(2))
    assert made.redo() == ()
    assert list(made) == [key(2)]


moves = st.lists(
    st.one_of(
        st.sampled_from(["undo", "redo"]),
        st.lists(
            st.tuples(st.integers(0, 3), st.sampled_from("abc")),
            min_size=1,
            unique_by=lambda pair: pair[0],
        ),
    ),
    max_size=30,
)


@settings(deadline=None)
@given(moves)
def test_undo_and_redo_give_exactly_the_states_there_were(moves):
    # The slow way: keep a copy of everything after each step.
    made, past, future = Decisions(), [{}], []
    for move in moves:
        if move == "undo":
            made.undo()
            if len(past) > 1:
                future.append(past.pop())
        elif move == "redo":
            made.redo()
            if future:
                past.append(future.pop())
        else:
            made.decide(*(accept(number, label) for number, label in move))
            past.append({**past[-1], **{key(number): label for number, label in move}})
            future = []
        assert made.accepted() == past[-1]
        assert (made.undoable, made.redoable) == (len(past) - 1, len(future))
