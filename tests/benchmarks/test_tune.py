"""``bench tune``: learning rate and steps on VOC, beside the paper's curve."""

from __future__ import annotations

import csv
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from benchmarks.paper import commands as command
from benchmarks.paper.tuning import (
    Curve,
    best_of,
    curve_of,
    points_to,
    tuning_plan,
    verdict,
)
from napari_maskinversion.bench.measures.figures_file import RecordStore
from tests.bench.datasets.archives import SETS
from tests.bench.sets import ok, one_line
from tests.scenes import demo_model

from .conftest import Bench, Measured


def curve(
    rate: float, at_ten: float, at_end: float, width: float = 2.0, start: float = 40
) -> Curve:
    def around(value: float) -> dict[str, float]:
        return {"value": value, "low": value - width, "high": value + width}

    points = {0: around(start), 10: around(at_ten), 100: around(at_end)}
    return Curve(rate, points, around(at_end - at_ten))


def test_the_papers_curve_agrees_with_the_rate_that_is_right_and_flat() -> None:
    slow, right, steep = curve(0.05, 70, 85), curve(0.1, 84.9, 85.5), curve(0.5, 86, 60)
    assert verdict([slow, right, steep]).endswith("agrees with learning rate 0.1.")
    assert [one.agrees for one in (slow, right, steep)] == [False, True, False]


def test_a_curve_that_is_nowhere_near_agrees_with_none() -> None:
    words = verdict([curve(0.1, 60, 60), curve(0.5, 70, 71)])
    assert "agrees with none" in words
    assert words.endswith("nearest is 0.5, 15.4 points away at step 10.")
    words = verdict([curve(0.1, 60, 60), curve(0.5, 70, 71), curve(1, 70.01, 71)])
    assert words.endswith("nearest are 0.5 and 1, 15.4 points away at step 10.")
    words = verdict([curve(0.1, 60, 60), curve(0.5, 60, 71)])
    assert words.endswith("none of these learning rates; all are 25.4 points away at step 10.")


def test_a_curve_that_ends_too_early_cannot_be_compared() -> None:
    point = {"value": 85.4, "low": 80.0, "high": 90.0}
    assert "cannot be compared" in verdict([Curve(0.1, {5: point}, None)])
    flat = {"value": 0.0, "low": -1.0, "high": 1.0}
    words = verdict([Curve(0.1, {10: point, 20: point}, flat)])
    assert words.endswith("agrees with learning rate 0.1, as far as step 20.")


def test_fewer_steps_are_better_where_it_hardly_matters() -> None:
    best = best_of([curve(0.1, 85.0, 85.3), curve(0.5, 85.4, 80)])
    assert best is not None
    assert (best.rates, best.steps, best.point["value"]) == ((0.5,), 10, 85.4)
    equal = best_of([curve(0.1, 85, 85), curve(0.2, 80, 80), curve(0.5, 85, 85)])
    assert equal is not None
    assert (equal.rates, equal.steps) == ((0.1, 0.5), 10)
    whole = best_of([curve(0.1, 30, 30), curve(0.5, 20, 20)])
    assert whole is not None
    assert (whole.rates, whole.steps, whole.point["value"]) == ((0.1, 0.5), 0, 40)
    for at_ten, after in ((85.0, 10), (80, 100)):
        best = best_of([curve(0.1, at_ten, 85.3)])
        assert best is not None
        assert best.steps == after
    assert best_of([curve(0.1, 0, 0, start=0)]) is None
    assert points_to(10) == (0, 1, 2, 3, 4, 5, 7, 10)
    assert points_to(12)[-2:] == (10, 12)


def test_the_change_of_a_curve_is_of_the_same_regions() -> None:
    plan = tuning_plan("demo", (0.1,), 12, resolution=32, limit=None, skip_bad=False)
    store = RecordStore(None, "tune", ("model", "entry", "image"), {})
    ranks = {"a": {10: [0, 1], 12: [0, 0]}, "b": {10: [0, 0], 12: [1, 0]}}
    for image, by_step in ranks.items():
        after = {str(step): by_step.get(step, [1, 1]) for step in plan.entries[0].points}
        store.add(("demo", "rate=0.1", image), {"labels": [0, 0], "curve": after})
    drift = curve_of(store, plan, plan.entries[0], ["a", "b"]).drift
    assert drift is not None
    assert drift["value"] == pytest.approx(0)  # one better, one worse
    assert drift["low"] == pytest.approx(-50)
    assert drift["high"] == pytest.approx(50)


@pytest.fixture
def tune(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    SETS["voc"](tmp_path / "sets")
    monkeypatch.setattr(command, "load", lambda *_: demo_model())
    monkeypatch.chdir(tmp_path)
    return partial(bench, "tune", "--data", "sets", "--model", "demo", "--resolution", 32)


def test_rates_are_measured_after_every_step_and_kept(tune: Bench, measured: Measured) -> None:
    call = ("--rates", "0.1,0.5", "--steps", 12, "--out", ".", "--no-plots")
    out = ok(tune(*call))
    assert "| step: Acc@1, % | rate 0.1 | rate 0.5 | paper, B/16 |" in out
    assert "| 85.4 |" in next(line for line in out.splitlines() if line.startswith("| 10 |"))
    assert "No setting names a region right" in out  # at 32 px
    assert "The paper's curve (85.4 % at step 10, flat to 100)" in out
    page = json.loads(Path("tune.json").read_text("utf-8"))
    assert set(page["parts"]) == {"rate 0.1", "rate 0.5"}
    measured.clear()
    again = tune(*call)
    assert again[1].splitlines()[2:] == out.splitlines()[2:]
    assert measured == []


def test_a_folder_holds_table_csv_plots_and_figures(tune: Bench) -> None:
    call = ("--rates", "0.1,0.5", "--steps", 12, "--limit", 1, "--out", "rates")
    out = ok(tune(*call))
    folder = Path("rates")
    assert {file.name for file in folder.iterdir()} == {
        *("tune.md", "tune.csv", "tune-light.svg", "tune-dark.svg"),
        *("tune.json", "tune.records.jsonl"),
    }
    assert out.strip() in (folder / "tune.md").read_text("utf-8")
    rows = list(csv.DictReader(io.StringIO((folder / "tune.csv").read_text("utf-8"))))
    points = {"rate 0.1", "rate 0.5"}, {str(step) for step in points_to(12)}
    assert ({row["data"] for row in rows}, {row["row"] for row in rows}) == points
    assert len(rows) == len(points[0]) * len(points[1])
    assert {row["row"] for row in rows if row["paper"]} == {"10"}  # the last step is not 100
    assert {row["model"] for row in rows} == {"demo"}
    assert tune(*call)[0] == 0, "the same call goes on"
    assert tune(*call, "--overwrite", "--no-plots")[0] == 0


def test_files_of_others_are_not_replaced(tune: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "load", lambda *_: pytest.fail("too late"))
    Path("rates").mkdir()
    Path("rates/tune.csv").write_text("my notes")
    one_line(tune("--out", "rates"), "already has tune.csv")
    Path("file").write_text("")
    one_line(tune("--out", "file"), "file is a file; --out names a folder")
    assert Path("rates/tune.csv").read_text() == "my notes"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--rates", "fast"), "--rates takes numbers such as 0.1,0.5; got 'fast'"),
        (("--rates", "0"), "learning_rate"),
        (("--steps", 0), "steps"),
        (("--split", "best"), "Pascal VOC 2012 has no split 'best'"),
        (("--data", "elsewhere"), "There is no folder elsewhere"),
    ],
)
def test_bad_options_are_refused(
    tune: Bench, monkeypatch: pytest.MonkeyPatch, options: tuple[Any, ...], says: str
) -> None:
    monkeypatch.setattr(command, "load", lambda *_: pytest.fail("too late"))
    one_line(tune(*options), says)
