"""Work that does not fit the memory is run again with less."""

from __future__ import annotations

import pytest

from napari_maskinversion.base.errors import NotEnoughMemoryError
from napari_maskinversion.base.oom_fallback import Attempt, OomFallback, then_on_cpu

ATTEMPTS = then_on_cpu([Attempt(4, "cuda:0"), Attempt(1, "cuda:0", note="one")], "on the CPU")


@pytest.fixture
def fallback():
    return OomFallback(ATTEMPTS, "It does not fit; choose a smaller one.")


def test_the_attempts_on_the_cpu_follow_once():
    assert [(item.at_once, item.device, item.note) for item in ATTEMPTS] == [
        (4, "cuda:0", ""),
        (1, "cuda:0", "one"),
        (4, "cpu", "on the CPU"),
        (1, "cpu", "one"),
    ]
    assert then_on_cpu(ATTEMPTS[2:], "again") == ATTEMPTS[2:]


def test_work_runs_until_it_fits_and_then_stays_like_that(fallback):
    failed = []

    def work():
        if fallback.now.device != "cpu":
            raise MemoryError
        return fallback.now.at_once

    assert fallback.run(work, failed.append) == 4
    assert failed == ATTEMPTS[:2]
    assert fallback.run(work, failed.append) == 4
    assert len(failed) == 2


def test_attempts_that_would_not_ask_for_less_are_skipped(fallback):
    notes = []

    def work():
        notes.append(fallback.now.note)
        if fallback.now.device != "cpu":
            raise MemoryError

    fallback.run(work, items=1)
    assert notes == ["", "on the CPU"]


def test_after_a_failure_later_work_begins_again_on_the_same_device(fallback):
    def work():
        raise MemoryError

    with pytest.raises(NotEnoughMemoryError, match="choose a smaller one"):
        fallback.run(work)
    assert fallback.now == ATTEMPTS[2]


def test_other_errors_are_not_retried(fallback):
    tried = []

    def work():
        tried.append(fallback.now)
        raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="shapes"):
        fallback.run(work)
    assert tried == ATTEMPTS[:1]
