"""The ``bench`` commands, as a user meets them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmarks.drawn.cases import ModelUnderTest, SceneSource, subject_of
from benchmarks.drawn.curves import CurveBench
from benchmarks.drawn.methods import SCENE_METHODS, Setting, invert
from benchmarks.drawn.plans import CurvePlan
from napari_maskinversion import wrap_open_clip
from napari_maskinversion.cli import app
from napari_maskinversion.cli.bench import shared
from napari_maskinversion.engine.models.loading import load_model
from napari_maskinversion.engine.models.specs import bundled_folder
from napari_maskinversion.engine.settings import InversionConfig
from tests.bench.sets import ok
from tests.engine.tiny import tiny_siglip

from .conftest import Bench


def row_of(out: str, title: str) -> str:
    return next(line for line in out.splitlines() if line.startswith(f"| {title} |"))


SHORT = ("bench", "scenes", "--short", "--scenes", "8", "--json")


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Figures of the short form, as continuous integration measures them."""
    file = tmp_path_factory.mktemp("bench") / "short.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["napari-maskinversion", *SHORT, str(file)])
        with pytest.raises(SystemExit) as stop:
            app.main()
    assert not stop.value.code
    page: dict[str, Any] = json.loads(file.read_text("utf-8"))
    return page


# Far above chance (one in dozens of names), below every bundled model so far.
FLOORS = {"single": 0.6, "maskinversion": 0.5, "masked_crop": 0.5, "iou": 0.35}


def falls_short(page: dict[str, Any]) -> list[str]:
    single, regions = page["parts"]["single/bundled"], page["parts"]["regions/bundled/3"]
    scores = {
        "single": single["top1"]["value"],
        "maskinversion": regions["ways"]["maskinversion"]["top1"]["value"],
        "masked_crop": regions["ways"]["masked_crop"]["top1"]["value"],
        "iou": regions["iou"]["value"],
    }
    return [name for name, floor in FLOORS.items() if scores[name] < floor]


def test_the_bundled_model_names_regions_far_above_chance(short: dict[str, Any]) -> None:
    assert falls_short(short) == []
    assert set(short["parts"]["regions/bundled/3"]["ways"]) == set(SCENE_METHODS)


def test_figures_say_where_they_come_from(short: dict[str, Any]) -> None:
    assert short["settings"]["fingerprint"] == load_model("demo", device="cpu").fingerprint
    assert (
        short["command"] == "napari-maskinversion bench scenes --short --scenes 8 --json short.json"
    )
    assert short["machine"]["cores"] >= 1
    for part in short["parts"].values():
        assert part["date"].startswith("20")
    top = short["parts"]["regions/bundled/3"]["ways"]["crop"]["top1"]
    assert 0 <= top["low"] <= top["value"] <= top["high"] <= 1


def damaged(folder: Path, spoil: Callable[[dict[str, torch.Tensor]], None]) -> Path:
    """A copy of the bundled model with spoilt weights."""
    source = bundled_folder()
    for file in ("open_clip_config.json", "vocabulary.txt"):
        (folder / file).write_bytes((source / file).read_bytes())
    tensors = load_file(source / "open_clip_model.safetensors")
    spoil(tensors)
    save_file(tensors, folder / "open_clip_model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["scenes", "--objects", "3,7"], "from 1 to 5"),
        (["scenes", "--objects", "three"], "'three'"),
        (["scenes", "--steps", "0"], "steps"),
        (["scenes", "--learning-rate", "-1"], "learning_rate"),
        (["scenes", "--sprites", "no-such-folder"], "no-such-folder"),
        (["scenes", "--data", "no-such-folder"], "no-such-folder"),
        (["scenes", "--real"], "NAPARI_MASKINVERSION_DATA"),
        (["scenes", "--json", "."], "is a folder"),
        (["steps", "--objects", "9"], "from 1 to 5"),
        (["alpha", "--alphas", "0,much"], "0,much"),
        (["alpha", "--alphas", "0,-1"], "alpha"),
        (["show", "no-such-file.json"], "no-such-file.json"),
    ],
)
def test_what_cannot_work_is_refused_before_the_work(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.delenv("NAPARI_MASKINVERSION_DATA", raising=False)

    def too_late(*_: Any) -> Any:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(shared, "load", too_late)
    code, _, err = bench(*arguments)
    assert code == 2, err
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_no_scene_that_is_measured_is_one_of_another_split(subject: ModelUnderTest) -> None:
    source = SceneSource(subject, None)
    pictures = [
        c.image.tobytes()
        for split in ("validation", "test")
        for objects in (1, 3)
        for c in source.draw("bundled", 3, objects, split)
    ]
    assert len(set(pictures)) == len(pictures)
    again = [c.image.tobytes() for c in source.draw("bundled", 3, 3, "test")]
    assert pictures[-3:] == again


def test_every_object_of_a_scene_shows(subject: ModelUnderTest) -> None:
    for case in SceneSource(subject, None).draw("bundled", 6, 5):
        assert case.masks.mean((1, 2)).min() >= 0.008
        assert len(set(case.labels.tolist())) == len(case.labels) == 5


def test_a_curve_over_steps_is_what_separate_inversions_give(subject: ModelUnderTest) -> None:
    cases = list(SceneSource(subject, None).draw("bundled", 3, 3))
    values = (0.0, 1.0, 4.0)
    plan = CurvePlan(resolution=96)
    curve = CurveBench(subject, plan, "steps", values, InversionConfig(steps=4)).curve(cases)
    for place, steps in ((1, 1), (2, 4)):
        separate = InversionConfig(steps=steps)
        vectors, overlaps = invert(subject, cases, Setting(resolution=96), separate)
        labels = np.concatenate([c.labels for c in cases])
        right = ((vectors @ subject.texts.T).argmax(1) == labels).mean()
        assert curve["top1"][place]["value"] == pytest.approx(right)
        assert curve["iou"][place]["value"] == pytest.approx(overlaps.mean(), abs=1e-4)
    assert curve["cosine"][0] == pytest.approx(1, abs=1e-5)
    assert curve["dice"][0] > curve["dice"][1] > curve["dice"][2]
    assert curve["iou"][2]["value"] > curve["iou"][0]["value"]


def test_a_model_is_asked_for_what_it_was_taught(tmp_path: Path, subject: ModelUnderTest) -> None:
    assert subject.taught
    folder = damaged(tmp_path, lambda _: None)
    cells = ("red blood cell", "white blood cell", "platelet")
    listed = [*(n.name for n in subject.drawn[:12]), *cells]
    (folder / "vocabulary.txt").write_text("\n".join(listed) + "\n")
    other = subject_of(load_model(folder, device="cpu"))
    assert list(other.names) == listed
    assert len(other.drawn) == 12
    assert other.knows("blood")
    assert not other.knows("aerial")
    (folder / "vocabulary.txt").unlink()
    unlisted = subject_of(load_model(folder, device="cpu"))
    assert not unlisted.taught
    assert unlisted.knows("aerial")


@pytest.fixture
def siglip(monkeypatch: pytest.MonkeyPatch) -> str:
    """A small model that pools by attention."""
    model = wrap_open_clip(tiny_siglip(monkeypatch))
    monkeypatch.setattr(shared, "load", lambda *_: model)
    return "siglip"


def test_scenes_leave_out_the_ways_that_a_tower_lacks(
    bench: Bench, siglip: str, tmp_path: Path
) -> None:
    file = tmp_path / "short.json"
    call = ["scenes", "--short", "--scenes", 2, "--steps", 1, "--model", siglip, "--json", file]
    out = ok(bench(*call))
    row = row_of(out, "token means (MaskCLIP)")
    assert "not for this model: MaskCLIP needs an open_clip" in row
    assert "(" in row_of(out, "Masked Crop")
    assert bench(*call)[1] == out  # goes on with what is kept
