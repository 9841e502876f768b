from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from benchmarks.drawn.cases import ModelUnderTest, subject_of
from tests.bench.conftest import Measured, measured
from tests.scenes import demo_model

__all__ = ["Measured", "measured"]  # the fixture of the commands that are installed

Bench = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def subject() -> ModelUnderTest:
    return subject_of(demo_model())


@pytest.fixture
def bench(call: Bench, no_network: None) -> Bench:
    """Call ``bench``; return its exit code, standard output and standard error."""
    return partial(call, "bench")
