from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from napari_maskinversion.bench.measures.scene_methods import SCENE_METHODS
from napari_maskinversion.bench.model_under_test import ModelUnderTest, subject_of
from napari_maskinversion.cli import app
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
def bench(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, no_network: None
) -> Bench:
    """Call ``bench``; give exit code, standard output, standard error."""

    def command(*arguments: Any) -> tuple[int, str, str]:
        words = ["napari-maskinversion", "bench", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", words)
        code: Any = 0
        try:
            app.main()
        except SystemExit as stop:
            code = stop.code or 0
        said = capsys.readouterr()
        return int(code), said.out, said.err

    return command


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return own_images(tmp_path / "own")
