"""``bench speed``: its rows, what Ctrl-C leaves, what it refuses."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from napari_maskinversion.bench.measures import speed
from napari_maskinversion.engine.compute import matmul
from tests.engine.recorded import stand_in

from .conftest import Bench

ROOT = Path(__file__).parents[2]
TINY = ("--architecture", "demo", "--side", 64, "--masks", "1,2", "--regions", 3, "--images", 2)
QUICK = ("speed", "--device", "cpu", *TINY, "--minutes", 1)


@pytest.fixture(autouse=True)
def float32_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processors differ in what else they have."""
    monkeypatch.setattr(matmul, "cpu_has_bfloat16", lambda: False)


def test_each_kind_of_row_is_measured_printed_and_kept(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "speed.json"
    code, out, err = bench(*QUICK, "--json", file, "--reference", ROOT / "tests/reference")
    assert code == 0, err
    page = json.loads(file.read_text("utf-8"))
    rows = Counter(name.split("/")[0] for name in page["parts"])
    assert rows == {"agreement": 3, "encoding": 1, "whole": 2, "large": 1, "batch": 1}
    exact = page["parts"]["agreement/float32/direct"]
    assert exact["cases"] == 7
    assert exact["largest"] < 1e-5
    assert exact["map_error"] < 1e-3
    assert {"ms", "ms_again", "route", "calls"} <= set(page["parts"]["whole/2/float32"])
    assert 1 <= page["parts"]["large/demo/float32"]["items"] <= 3
    assert 0 < page["parts"]["batch/demo/float32"]["busy_percent"] <= 110
    assert out.count("\n| whole | ") == 2
    assert bench("show", file)[1] == out


def test_on_a_gpu_some_rows_are_measured_without_graphs_and_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(speed.CudaGraph, "suits", lambda _: True)
    off: list[tuple[bool, ...]] = []

    def call(*_: Any) -> tuple[float, float, str]:
        off.append(tuple(extra.works for extra in speed.EXTRAS.values()))
        return 1.0, 0.5, "direct"

    monkeypatch.setattr(speed, "_call", call)
    rows = {name: row(print) for name, row in plan(masks=(1, 5, 9)).parts() if "without" in name}
    extras = ("graphs", "kernels", "products")
    assert [*rows] == [f"without/{e}/{n}/float32" for e in extras for n in (1, 9)]
    assert rows["without/graphs/9/float32"]["without"] == "graphs"
    assert {*off} == {tuple(e != name for e in extras) for name in extras}
    assert all(extra.works for extra in speed.EXTRAS.values())


def test_what_the_graph_of_the_encoding_brings_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    said = stand_in(monkeypatch)
    monkeypatch.setattr(speed.CudaGraph, "suits", lambda _: True)
    (row,) = (row(print) for name, row in plan().parts() if name == "encoding/float32")
    assert {"ms", "ms_without_graph"} <= set(row)
    assert said.count("repeated") == 1 + speed.REPEATS  # one of them to compare


def test_ctrl_c_leaves_what_is_measured(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(speed, "label_regions", stop)
    file = tmp_path / "speed.json"
    code, out, err = bench(*QUICK, "--json", file, "--reference", tmp_path)
    assert code == 130
    assert "| whole | 2 | float32 | " in out
    assert "6 finished parts are in" in err
    parts = json.loads(file.read_text("utf-8"))["parts"]
    assert parts["agreement/float32/direct"]["cases"] == 1  # without the reference: against the CPU
    assert not any(name.startswith("large") for name in parts)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("--masks", "5,none"), "--masks takes numbers of masks, such as 5,10; got '5,none'"),
        (("--architecture", "ViT-X"), "--architecture must be one of open_clip's, or demo"),
        (("--side", 100), "--side must be a multiple of 16 from 32 to 3072; got 100"),
        (("--side", 16), "--side must be a multiple of 16 from 32 to 3072; got 16"),
        (("--plots", "plots"), "bench speed draws no plots"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_loaded(
    bench: Bench, asked: tuple[Any, ...], says: str
) -> None:
    code, _, err = bench("speed", *asked)
    assert code == 2
    assert says in err


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in its only entry; nothing else lets it pass."""
    now = [0.0]
    passing = SimpleNamespace(perf_counter=lambda: now[0], process_time=lambda: now[0] / 2)
    monkeypatch.setattr(speed, "time", passing)
    return now


def plan(**changes: Any) -> speed.SpeedPlan:
    usual: dict[str, Any] = {"device": "cpu", "architecture": "demo", "side": 64, "masks": (100,)}
    usual |= {"regions": 100, "images": 100, "reference": "", "minutes": 1.0}
    return speed.SpeedPlan(**usual | changes)


def test_a_row_that_takes_too_long_is_left_out(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, asked = speed.MaskInverter.invert, list[int]()
    speed._first.cache_clear()

    def slow(self: Any, masks: Any, config: Any) -> Any:
        clock[0] += len(masks)
        asked.append(len(masks))
        return original(self, masks, config)

    monkeypatch.setattr(speed.MaskInverter, "invert", slow)
    assert (
        plan()._whole(100.0, 100, "float32", print)["route"]
        == "left out, since it takes about 200 s"
    )
    asked.clear()
    assert "left out" in plan()._whole(5.0, 5, "float32", print)["route"]
    assert asked == [1, 1]  # one mask tells enough
    row = plan()._whole(1000.0, 10, "float32", print)
    speed._first.cache_clear()
    assert (row["calls"], row["ms"], row["ms_again"]) == (5, 10_000, 10_000)
