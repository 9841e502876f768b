"""Imports in the background do not set off full garbage collections."""

import gc
import threading

import pytest

from napari_maskinversion.app.work.preload import without_collections


@pytest.fixture
def collections():
    """Generations collected since the start of the test."""
    generations = []

    def note(phase, info):
        if phase == "start":
            generations.append(info["generation"])

    gc.callbacks.append(note)
    yield generations
    gc.callbacks.remove(note)


def objects(count=300_000):
    return [[] for _ in range(count)]


def test_nothing_is_collected_meanwhile_nor_in_full_right_afterwards(collections):
    gc.collect()
    collections.clear()
    with without_collections():
        made = objects()
    assert not collections
    more = objects(20_000)
    assert 2 not in collections
    assert 0 in collections  # young objects are
    assert made
    assert more


def test_it_is_off_until_the_last_of_several_threads_is_done():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with without_collections():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(10)
    with without_collections():
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()
