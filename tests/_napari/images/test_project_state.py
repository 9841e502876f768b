"""What the one button says while a project is worked through, without a window."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from napari_maskinversion._napari.panel.foot import step_of
from napari_maskinversion.app.session import (
    NextStep,
    ProjectState,
    ResultRecord,
    RunState,
    Session,
    next_step,
)
from napari_maskinversion.app.work.driver import Job
from tests.app.session.test_session import ANIMALS, Layer, results_of

NAMES = ("a.png", "b.png", "c.png")


@pytest.fixture
def session():
    """An image of a project with three suggestions."""
    session = Session()
    image, regions = Layer(), Layer()
    session.offer([image], [regions])
    session.run.region_count, session.run.vocabulary = 3, ANIMALS
    record = ResultRecord(results=results_of(), snapshot=session.run.snapshot(), total=3)
    session.show(record)
    session.run.progress = RunState("done", job=Job(done=3, total=3))
    session.project.state = ProjectState("cells", NAMES, current="a.png")
    return SimpleNamespace(session=session, layers=(image, regions))


def test_after_the_last_decision_the_button_goes_to_the_next_image_and_at_last_to_the_export(
    session,
):
    now = session.session
    assert next_step(now) is NextStep.REVIEW
    now.review.decided_count = 3
    assert next_step(now) is NextStep.NEXT_IMAGE
    assert step_of(now).title == "Next image"
    now.project.state = replace(now.project.state, done=frozenset(NAMES))
    assert next_step(now) is NextStep.EXPORT_ALL
    assert "3 of 3" in step_of(now).hint
    now.project.state = None
    assert next_step(now) is NextStep.EXPORT


def test_the_next_open_image_is_looked_for_after_this_one_and_then_from_the_beginning():
    state = ProjectState("cells", NAMES, current="b.png")
    assert state.next_open == "c.png"
    assert replace(state, done=frozenset({"c.png"})).next_open == "a.png"
    assert replace(state, done=frozenset(NAMES)).next_open == ""
    assert replace(state, current="").next_open == "a.png"


def test_previous_and_next_end_at_the_ends_of_the_list():
    state = ProjectState("cells", NAMES, current="a.png")
    assert (state.beside(1), state.beside(-1)) == ("b.png", "")
    assert replace(state, current="c.png").beside(1) == ""
    assert replace(state, current="").beside(1) == "a.png"


def test_a_step_counts_from_the_image_that_is_being_opened():
    state = ProjectState("cells", NAMES, current="a.png", opening="b.png")
    assert (state.beside(1), state.beside(-1)) == ("c.png", "a.png")
