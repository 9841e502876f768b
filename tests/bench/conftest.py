from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from napari_maskinversion.bench.measures.scene_methods import SCENE_METHODS
from napari_maskinversion.bench.model_under_test import ModelUnderTest, subject_of
from napari_maskinversion.engine.models.loading import load_model

from .sets import own_images

Bench = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def subject() -> ModelUnderTest:
    return subject_of(load_model("demo", device="cpu"))


def fewer_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let hyperparameter searches try two values of each choice."""
    for name, way in SCENE_METHODS.items():
        choices = {option: values[:2] for option, values in way.choices.items()}
        monkeypatch.setitem(SCENE_METHODS, name, replace(way, choices=choices))


@pytest.fixture
def bench(call: Bench, no_network: None) -> Bench:
    """Call ``bench``; return its exit code, standard output and standard error."""
    return partial(call, "bench")


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return own_images(tmp_path / "own")
