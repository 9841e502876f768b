"""Generators that yield their progress and return a result."""

from __future__ import annotations

from contextlib import closing

import pytest

from napari_maskinversion.base.steps import Steps, drive, map_steps


class Work:
    """Two steps and a result; notes whether it was closed early."""

    def __init__(self):
        self.closed = False

    def __call__(self):
        try:
            yield 1
            yield 2
        except GeneratorExit:
            self.closed = True
            raise
        return "result"


@pytest.fixture
def work():
    return Work()


def test_driving_shows_every_step_and_returns_the_result(work):
    seen = []
    assert drive(work(), seen.append) == "result"
    assert seen == [1, 2]
    assert drive(work()) == "result"


def test_an_error_in_the_callback_closes_the_work(work):
    def refuse(step):
        raise KeyError(step)

    with pytest.raises(KeyError):
        drive(work(), refuse)
    assert work.closed


def test_a_loop_that_is_left_closes_the_work_and_has_no_result(work):
    with Steps(work()) as steps:
        for _ in steps:
            break
    assert work.closed
    assert not hasattr(steps, "result")


def test_mapped_steps_keep_the_result_and_close_the_work(work):
    seen = []
    assert drive(map_steps(str, work()), seen.append) == "result"
    assert seen == ["1", "2"]
    with closing(map_steps(str, work())) as mapped:
        next(mapped)
    assert work.closed


def test_errors_of_the_work_pass_through():
    def broken():
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        drive(broken())
