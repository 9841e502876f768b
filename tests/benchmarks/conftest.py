from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from benchmarks.drawn.cases import ModelUnderTest, subject_of
from benchmarks.drawn.methods import SCENE_METHODS
from tests.scenes import demo_model

Bench = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def subject() -> ModelUnderTest:
    return subject_of(demo_model())


def fewer_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hyperparameter searches try two values of each choice."""
    for name, way in SCENE_METHODS.items():
        choices = {option: values[:2] for option, values in way.choices.items()}
        monkeypatch.setitem(SCENE_METHODS, name, replace(way, choices=choices))


@pytest.fixture
def bench(call: Bench, no_network: None) -> Bench:
    """Call ``bench``; return its exit code, standard output and standard error."""
    return partial(call, "bench")
