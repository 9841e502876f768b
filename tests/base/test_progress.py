"""Work tells how far it is; who listens hears it, and may stop it."""

import threading
from contextlib import contextmanager

import pytest

from napari_maskinversion.base.errors import Cancelled
from napari_maskinversion.base.progress import (
    Tick,
    counting,
    listening,
    pausing,
    tell,
    telling,
    tick,
)
from tests.listeners import collect, stopped


def work():
    for done in range(3):
        tick("Step", done, 2)
    return "result"


def test_a_listener_hears_every_step_and_nobody_has_to_listen():
    news, result = collect(work)
    assert result == work() == "result"
    assert news == [Tick("Step", done, 2) for done in range(3)]
    assert [one.fraction for one in news] == [0, 0.5, 1]
    assert news[1].text == "Step 1 of 2"


def test_a_listener_that_raises_stops_the_work():
    assert len(stopped(work, 2)) == 2
    assert collect(work)[1] == "result"  # and hears no more afterwards


def test_news_can_be_changed_on_their_way():
    def outer():
        with telling(lambda news: f"{news.done} of {news.total}"):
            work()
        tell("the end")

    assert collect(outer)[0] == ["0 of 2", "1 of 2", "2 of 2", "the end"]


def test_a_stage_can_be_counted_beside_the_listener():
    seen = []

    def counted():
        with counting("Step", lambda *how: seen.append(how)):
            work()
            tick("Labels", 1, 1)

    assert len(collect(counted)[0]) == 4
    assert seen == [(0, 2), (1, 2), (2, 2)]


def test_what_a_listener_does_itself_is_not_told():
    heard = []
    with listening(lambda news: heard.append(news) or work()):
        work()
    assert len(heard) == 3


def test_a_listener_hears_its_own_thread_alone():
    def elsewhere():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    assert collect(elsewhere)[0] == []


def test_what_work_holds_is_let_go_of_while_it_tells():
    order = []

    @contextmanager
    def pause():
        order.append("free")
        try:
            yield
        finally:
            order.append("held")

    def stop(_):
        order.append("told")
        raise Cancelled

    with pytest.raises(Cancelled), listening(stop), pausing(pause):
        tell("news")
    assert order == ["free", "told", "held"]
