"""Short pieces of work beside the main thread."""

import threading

import pytest

from napari_maskinversion._napari.workers.calls import CallQueue, Calls
from napari_maskinversion.base.errors import InputError


@pytest.fixture
def told(qtbot):
    """Give calls whose outcomes are noted, and the notes."""

    def watch(calls):
        said = []
        calls.done.connect(said.append)
        calls.failed.connect(said.append)
        return calls, said

    return watch


class Gate:
    """A function that ends when it is told to."""

    def __init__(self, outcome):
        self.open, self.outcome = threading.Event(), outcome

    def __call__(self):
        assert self.open.wait(10)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def test_of_several_calls_the_latest_is_told(qtbot, told):
    calls, said = told(Calls())
    first = Gate("first")
    calls.start(first)
    calls.start(lambda: "second")
    qtbot.waitUntil(lambda: not calls.busy)
    first.open.set()
    qtbot.wait(50)
    assert said == ["second"]


def test_a_queue_tells_every_outcome_in_order(qtbot, told):
    calls, said = told(CallQueue())
    first = Gate(InputError("The disk is full."))
    calls.start(first)
    calls.start(lambda: "second")
    calls.start(lambda: "third")
    qtbot.wait(50)
    assert said == []
    first.open.set()
    qtbot.waitUntil(lambda: not calls.busy)
    assert said == ["The disk is full.", "second", "third"]


def test_a_queue_that_is_let_go_of_does_what_waits_and_tells_nothing(qtbot, told):
    calls, said = told(CallQueue())
    first, last = Gate("first"), threading.Event()
    calls.start(first)
    calls.start(lambda: 1 / 0)
    calls.start(last.set)
    calls.abandon()
    assert not calls.busy
    first.open.set()
    qtbot.waitUntil(last.is_set)
    qtbot.wait(50)
    assert said == []
