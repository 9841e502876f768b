"""``bench scenes`` on real images: what cannot be used is named, can be left out, and is drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.drawn import commands
from benchmarks.drawn.cases import ModelUnderTest
from benchmarks.drawn.methods import SCENE_METHODS
from benchmarks.drawn.plans import ScenesPlan
from benchmarks.drawn.scenes import ScenesBench
from tests.bench.sets import ok

from .conftest import Bench


def a_page() -> dict[str, Any]:
    root = Path(__file__).parents[2]
    page: dict[str, Any] = json.loads((root / "benchmarks/results/scenes.json").read_text("utf-8"))
    return page


def test_kept_figures_of_scenes_are_drawn_for_light_and_dark_pages(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "scenes.json"
    file.write_text(json.dumps(a_page()), "utf-8")
    ok(bench("show", file, "--plots", tmp_path / "plots"))
    drawn = {p.name: p.read_text("utf-8") for p in (tmp_path / "plots").iterdir()}
    assert set(drawn) == {"scenes-light.svg", "scenes-dark.svg"}
    assert drawn["scenes-light.svg"] != drawn["scenes-dark.svg"]
    for text in (
        *(way.title for way in SCENE_METHODS.values()),
        "seen styles",
        "aerial",
        "3 objects",
    ):
        assert f"<!-- {text} -->" in drawn["scenes-light.svg"]


def test_scenes_take_what_the_other_commands_take(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subject: ModelUnderTest
) -> None:
    seen: list[ScenesPlan] = []

    def measured(self: ScenesBench, *_: Any) -> None:
        seen.append(self.plan)
        self.record.page |= a_page()
        self.record.page["parts"]["real/blood"]["skipped"] = ["blood, smear5: it is broken."]

    monkeypatch.setattr(commands, "subject_of_name", lambda *_: subject)
    monkeypatch.setattr(ScenesBench, "run", measured)
    plots = tmp_path / "plots"
    code, out, err = bench("scenes", "--short", "--skip-bad", "--plots", plots)
    assert code == 0, err
    assert seen[0].skip_bad
    assert "- blood, smear5: it is broken." in out
    assert "Left out: blood, smear5: it is broken." in err
    assert {p.name for p in plots.iterdir()} == {"scenes-light.svg", "scenes-dark.svg"}
