"""Questions that are asked while others are being answered."""

import threading
import time

import pytest

from napari_maskinversion._napari.workers.asker import Asker
from napari_maskinversion.base.errors import InputError


@pytest.fixture
def asker(qtbot):
    """One that notes what is said; gives it and its notes."""
    made, heard = Asker("The question"), []
    made.said.connect(lambda text: heard.append(("said", text)))
    made.answered.connect(lambda answer: heard.append(("answered", answer)))
    made.failed.connect(lambda text: heard.append(("failed", text)))
    yield made, heard
    made.cancel()
    qtbot.waitUntil(lambda: made._worker is None, timeout=20_000)


def question(answer, *, until=None, says=()):
    def ask():
        yield from says
        if until is not None:
            until.wait(20)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return ask


def settle(qtbot, asker):
    qtbot.waitUntil(lambda: not asker.busy and asker._worker is None, timeout=20_000)


def test_an_older_answer_that_comes_all_the_same_is_dropped(qtbot, asker):
    ask, heard = asker
    go = threading.Event()
    ask.ask(question("old", until=go))
    ask.ask(question("between"))
    ask.ask(question("new"))
    go.set()
    settle(qtbot, ask)
    assert heard == [("answered", "new")]


def test_an_older_question_is_stopped_at_its_next_step(qtbot, asker):
    ask, heard = asker
    stopped = threading.Event()

    def endless():
        try:
            while True:
                yield "thinking"
                time.sleep(0.01)
        finally:
            stopped.set()

    ask.ask(endless)
    qtbot.waitUntil(lambda: heard == [("said", "thinking")], timeout=20_000)
    ask.ask(question("new"))
    settle(qtbot, ask)
    assert stopped.is_set()
    assert heard[-1] == ("answered", "new")


@pytest.mark.parametrize("answer", ["late", InputError("no"), RuntimeError("a kernel failed")])
def test_after_cancel_nothing_is_said_and_the_next_question_is_answered(
    qtbot, asker, messages, answer
):
    ask, heard = asker
    go = threading.Event()
    ask.ask(question(answer, until=go))
    ask.cancel()
    go.set()
    settle(qtbot, ask)
    assert heard == []
    assert messages == []
    ask.ask(question(3))
    settle(qtbot, ask)
    assert heard == [("answered", 3)]


def test_reasons_are_told_and_what_nobody_foresaw_is_reported(qtbot, asker, messages):
    ask, heard = asker
    ask.ask(question(InputError("there is no image")))
    settle(qtbot, ask)
    assert heard == [("failed", "there is no image")]
    assert messages == []
    ask.ask(question(RuntimeError("a kernel failed")))
    settle(qtbot, ask)
    assert len(heard) == 1
    assert "The question broke off" in messages[0]
    assert "a kernel failed" in messages[0]
