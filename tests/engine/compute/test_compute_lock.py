"""Threads of OpenMP are there while the engine computes, and gone afterwards."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from napari_maskinversion import MaskInverter, load_model
from napari_maskinversion.base.progress import listening, tick
from napari_maskinversion.engine.compute.compute_lock import computing, end_threads
from napari_maskinversion.language.ranking.ranking import rank
from napari_maskinversion.learning.classifier import Classifier


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def large_loop() -> float:
    return float(torch.ones(1000, 1000).mul(2).sum())


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    end_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)
    end_threads()


def test_a_parallel_loop_keeps_threads_until_they_are_ended():
    before = threads()
    large_loop()
    assert threads() == before + 2
    end_threads()
    assert threads() == before
    assert torch.get_num_threads() == 3


def test_computing_leaves_no_threads_in_any_python_thread():
    """Two sets at a time are more than there are processors, which slows either one."""
    before = threads()
    seen = []

    def work() -> None:
        with computing():
            large_loop()
            seen.append(threads() - before)
        seen.append(threads() - before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [1 + 2, 1]
    work()
    assert seen[2:] == [2, 0]


def test_an_inversion_and_its_ranking_leave_no_threads(image_and_masks):
    model = load_model("demo", device="cpu")
    inverter = MaskInverter(model)
    image, masks = image_and_masks
    before = threads()
    inverter.set_image(image)
    assert threads() == before
    result = inverter.invert(masks, steps=2)
    assert threads() == before
    text = model.encode_text(["a cat", "a dog"])
    assert threads() == before
    rank(np.repeat(result.embeddings, 50, 0), np.repeat(text, 200, 0), list("ab") * 200, 100.0)
    assert threads() == before


def test_what_accepted_regions_teach_leaves_no_threads():
    rows = np.random.default_rng(0).normal(size=(2000, 64)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    words = Classifier.of_words(("a", "b"), rows[:2], 10.0)
    before = threads()
    words.fit(rows[:500], ("a", "b") * 250, range(500), validate=False).rank(rows, ("a", "b"))
    assert threads() == before


def test_others_compute_while_a_step_is_told_however_deep():
    computed = []

    def compute_elsewhere(_):
        def work() -> None:
            with computing():
                computed.append(torch.is_grad_enabled())

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(timeout=20)
        computed.append(torch.is_grad_enabled())

    with listening(compute_elsewhere), computing(), computing(tf32=True):
        tick("Step", 1, 2)
        computed.append(torch.is_grad_enabled())
    assert computed == [False, True, False]
    assert torch.is_grad_enabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a forked process")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_of_one_thread_does_not_wait_for_those_of_the_first():
    large_loop()
    child = os.fork()
    if not child:
        torch.set_num_threads(1)
        with computing():
            torch.ones(10).sum()
        os._exit(0)
    end = time.monotonic() + 60
    while not (ended := os.waitpid(child, os.WNOHANG)[0]) and time.monotonic() < end:
        time.sleep(0.01)
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended


@pytest.fixture
def image_and_masks():
    rng = np.random.default_rng(0)
    masks = np.zeros((2, 224, 224), bool)
    masks[0, :100], masks[1, 100:, :50] = True, True
    return rng.integers(0, 255, (224, 224, 3), dtype=np.uint8), masks
