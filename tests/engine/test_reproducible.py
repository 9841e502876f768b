"""The same call gives the same bits, whatever ran before and whatever else the machine does."""

import numpy as np
import pytest

from napari_maskinversion import InversionConfig

from .processes import SIDE, elsewhere, engine, here, picture, stack
from .towers import image


def bits(inverter, count=3, **settings):
    return inverter.invert(stack(count), InversionConfig(**settings)).raw_embeddings.tobytes()


def test_a_call_gives_the_same_bits_whatever_ran_before_on_the_inverter():
    inverter = engine()
    first = bits(inverter)
    bits(inverter, count=40)  # so many that the decomposition would pay
    assert bits(inverter) == first
    bits(inverter, count=1, layers=2)
    inverter.set_image_tensor(image(SIDE, SIDE, seed=5))
    bits(inverter, count=7, steps=2)
    inverter.set_image_tensor(picture())
    assert bits(inverter) == first
    assert bits(engine()) == first


def test_many_masks_give_the_same_bits_before_and_after_few():
    inverter = engine()
    first = bits(inverter, count=40)
    bits(inverter, count=2)
    assert bits(inverter, count=40) == first
    assert bits(engine(), count=40) == first


@pytest.mark.parametrize("load", ["quiet", "busy"])
def test_another_process_gives_the_same_bits(load):
    for name, embeddings in here().items():
        np.testing.assert_array_equal(elsewhere()[load][name], embeddings, name)


def test_load_changes_no_bits_of_two_threads():
    quiet, busy = elsewhere()["two threads"], elsewhere()["two threads, busy"]
    np.testing.assert_array_equal(quiet["random"], busy["random"])
