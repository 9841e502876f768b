from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from napari_maskinversion.bench.measures import measuring

from .sets import own_images

Bench = Callable[..., tuple[int, str, str]]


@pytest.fixture
def bench(call: Bench, no_network: None) -> Bench:
    """Call ``bench``; return its exit code, standard output and standard error."""
    return partial(call, "bench")


class Measured(list[str]):
    """What was measured, as "IMAGE ENTRY"; at the place `stop_at`, counted from 1, it fails."""

    stop_at, error = 0, BaseException()

    def stop(self, at: int, error: BaseException | None = None) -> None:
        self.clear()
        self.stop_at, self.error = at, error or KeyboardInterrupt()


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Measured:
    seen, now = Measured(), [""]
    measure, image = measuring._OneModel.measure, measuring.Measuring._image

    def noted(self: Any, entry: Any, sample: Any) -> Any:
        seen.append(f"{now[0]} {entry.key}")
        if len(seen) == seen.stop_at:
            raise seen.error
        return measure(self, entry, sample)

    def noting(self: Any, one: Any, key: str) -> None:
        now[0] = key
        image(self, one, key)

    monkeypatch.setattr(measuring.Measuring, "_image", noting)
    monkeypatch.setattr(measuring._OneModel, "measure", noted)
    return seen


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return own_images(tmp_path / "own")
