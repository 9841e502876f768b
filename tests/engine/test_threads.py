"""Threads: torch's own number is used, never changed, and never taken twice."""

import threading
import time

import numpy as np
import pytest
import torch

from napari_maskinversion import InversionConfig

from .towers import assert_same_embeddings, image, inverter, masks, tower

SIDE = 224
CONFIGS = [InversionConfig(steps=5), InversionConfig(steps=5, fast=True)]


def engine(visual=None):
    made = inverter(visual or tower(image_size=SIDE))
    made.set_image_tensor(image(SIDE, SIDE))
    return made


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("config", CONFIGS, ids=["exact", "default"])
def test_embeddings_depend_on_neither_threads_nor_chunks(threads, config):
    stack, results = masks(6, SIDE, SIDE), []
    for number in (1, 3):
        threads(number)
        made = engine()
        results.append(made.invert(stack, config).raw_embeddings)
        parts = [made.invert(stack[i : i + 2], config).raw_embeddings for i in (0, 2, 4)]
        results.append(np.concatenate(parts))
        assert torch.get_num_threads() == number
    for other in results[1:]:
        assert_same_embeddings(other, results[0])


def in_threads(*calls):
    """Run calls at once; give what they return, in order, or raise what one raised."""
    results = [None] * len(calls)

    def work(place):
        try:
            results[place] = calls[place]()
        except BaseException as error:
            results[place] = error

    running = [threading.Thread(target=work, args=(place,)) for place in range(len(calls))]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
        assert not thread.is_alive()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def test_two_inverters_of_one_model_in_two_threads_give_what_each_gives_alone():
    visual, stack = tower(image_size=SIDE), masks(4, SIDE, SIDE)
    expected = engine(visual).invert(stack, CONFIGS[1]).raw_embeddings

    def call():
        return engine(visual).invert(stack, CONFIGS[1]).raw_embeddings

    for result in in_threads(call, call):
        assert_same_embeddings(result, expected)


def test_two_threads_take_turns_instead_of_taking_all_processors_twice():
    inside, most = [], []

    def note(*_):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.01)

    def calls():
        visual = tower(layers=4)
        for block in visual.transformer.resblocks[:-1]:
            block.register_forward_pre_hook(note)
            block.register_forward_hook(lambda *_: inside.pop() and None)
        made = inverter(visual)
        for _ in range(3):
            made.set_image_tensor(image())

    in_threads(calls, calls)
    assert len(most) == 18
    assert max(most) == 1
