"""``bench scenes`` on real images: what cannot be used is named, can be left out, and is drawn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.drawn import commands, scenes
from benchmarks.drawn.cases import ModelUnderTest, pictures
from benchmarks.drawn.commands import REAL_SETS, Output, ScenesPlan
from benchmarks.drawn.methods import SCENE_METHODS
from benchmarks.drawn.reports import markdown
from benchmarks.drawn.scenes import ScenesBench
from napari_maskinversion.bench.datasets.base import BadRecordError
from napari_maskinversion.bench.measures.figures_file import FiguresFile
from tests.bench.sets import ok, smears, tiles

from .conftest import Bench

CELL = "<object><name>{}</name><bndbox>{}</bndbox></object>"
CORNERS = "<xmin>{0}</xmin><ymin>{0}</ymin><xmax>{1}</xmax><ymax>{1}</ymax>"


CELLS = CELL.format("RBC", CORNERS.format(5, 25)) + CELL.format("WBC", CORNERS.format(30, 60))


def two_of_each(root: Path) -> Path:
    """Two images of each kind in the test split."""
    labels = np.random.default_rng(0).integers(1, 3, (60, 80)).astype(np.uint8)
    labels[:30] = 2
    return smears(tiles(root, labels, 2), f"<annotation>{CELLS}</annotation>", 7)


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize(
    ("kind", "bad", "how", "says"),
    [
        ("aerial", "dubai-aerial/labels/tile3_part1.png", halve, "is broken"),
        ("aerial", "dubai-aerial/labels/tile3_part1.png", Path.unlink, "there is no annotation"),
        ("aerial", "dubai-aerial/images/tile3_part1.jpg", halve, "is broken"),
        ("blood", "bccd/annotations/smear5.xml", halve, "is broken"),
        ("blood", "bccd/annotations/smear5.xml", Path.unlink, "there is no annotation"),
        ("blood", "bccd/images/smear5.jpg", halve, "is broken"),
    ],
)
def test_a_bad_real_image_is_named_and_can_be_left_out(
    tmp_path: Path, kind: str, bad: str, how: Any, says: str
) -> None:
    folder = two_of_each(tmp_path)
    whole = [picture.name for picture in pictures(folder, "test", kind)]
    assert len(whole) == 2
    how(folder / bad)
    name = Path(bad).stem
    with pytest.raises(BadRecordError, match="--skip-bad") as told:
        pictures(folder, "test", kind)
    assert f"{kind}, {name}: " in str(told.value)
    assert str(folder / bad) in str(told.value)
    assert says in str(told.value)
    skipped: dict[str, str] = {}
    left = [picture.name for picture in pictures(folder, "test", kind, skipped)]
    assert left == [other for other in whole if other != name]
    (why,) = skipped.values()
    assert str(folder / bad) in why


def test_a_split_without_one_usable_image_is_refused(tmp_path: Path) -> None:
    folder = two_of_each(tmp_path)
    for number in (0, 5):
        halve(folder / "bccd" / "annotations" / f"smear{number}.xml")
    with pytest.raises(BadRecordError, match="No test image of blood .* smear0"):
        pictures(folder, "test", "blood", {})


class Knows:
    """A model that pretends to know the cells."""

    def __init__(self, subject: ModelUnderTest) -> None:
        self._subject = subject

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subject, name)

    def knows(self, _: str) -> bool:
        return True

    def real_texts(self, kind: str) -> Any:
        return np.arange(5, 8), self._subject.texts[:3]


def test_what_is_left_out_of_a_measurement_is_listed_and_the_rest_goes_on(
    tmp_path: Path, subject: ModelUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scenes, "KINDS", ("blood",))
    for part in ("_single", "_choice", "_regions"):
        monkeypatch.setattr(ScenesBench, part, lambda *_: {})
    usual = {way: {"setting": {"resolution": 64}} for way in SCENE_METHODS}
    monkeypatch.setattr(scenes, "choose_settings", lambda *_, **__: dict(usual))
    folder, known = two_of_each(tmp_path), Knows(subject)
    halve(folder / "bccd" / "annotations" / "smear5.xml")
    file = tmp_path / "mine.json"

    for name in REAL_SETS:
        (folder / name / "images").mkdir(parents=True, exist_ok=True)

    def run(*, skip_bad: bool) -> FiguresFile:
        output = Output(json=file)
        plan = ScenesPlan(data=folder, steps=1, resolution=64, skip_bad=skip_bad, output=output)
        job = ScenesBench(known, plan)  # type: ignore[arg-type]
        job.run()
        return job.record

    with pytest.raises(BadRecordError, match=r"smear5\.xml .*--skip-bad"):
        run(skip_bad=False)
    kept = json.loads(file.read_text("utf-8"))["parts"]["choice/blood"]["date"]
    record = run(skip_bad=True)
    assert record.parts["choice/blood"]["date"] == kept
    assert record.parts["real/blood"]["images"] == 1
    (why,) = record.parts["real/blood"]["skipped"]
    real = {"kind": "scenes", "settings": record.page["settings"], "command": "bench"}
    text = markdown({**real, "parts": {"real/blood": record.parts["real/blood"]}})
    assert f"Left out:\n\n- {why}" in text


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
