"""How much code a reader of one inversion meets: counted, not timed."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import napari_maskinversion
from napari_maskinversion import MaskInverter, load_model
from tests.engine.towers import masks

PACKAGE = Path(napari_maskinversion.__file__).parent
SIDE = 128


@pytest.fixture(scope="module")
def calls():
    """Python calls of one exact inversion of five masks, by file of the package; "" is the rest."""
    inverter = MaskInverter(load_model("demo", device="cpu"))
    inverter.set_image(np.random.default_rng(0).integers(0, 255, (SIDE, SIDE, 3), np.uint8))
    stack, counted = masks(5, SIDE, SIDE), Counter()

    def count(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call":
            inside = path.is_relative_to(PACKAGE)
            counted[path.relative_to(PACKAGE).as_posix() if inside else ""] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        inverter.invert(stack)
    finally:
        sys.setprofile(before)
    return counted


def test_an_inversion_goes_through_few_files(calls):
    assert {"engine/invert/inverter.py", "engine/explain/legrad.py"} <= set(calls)
    assert len(calls.keys() - {""}) <= 17, sorted(calls)


def test_an_inversion_of_ten_steps_makes_few_calls(calls):
    # The library of the processor decides how a product is called.
    ours = sum(calls.values()) - calls["engine/compute/matmul.py"] - calls[""]
    assert ours <= 870
    assert sum(calls.values()) <= 3_290  # with torch; half of those of the first edition
