"""What a resumed measurement keeps, what a model cannot do, and where the paper has figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from napari_maskinversion import wrap_open_clip
from napari_maskinversion.base import targets
from napari_maskinversion.bench.measures.statistics import ratio
from napari_maskinversion.bench.reports.report_tables import markdown, paper_tables
from napari_maskinversion.cli.bench import data_sets, shared
from napari_maskinversion.engine.models.backbone import Backbone
from tests.engine.tiny import tiny_clip, tiny_siglip
from tests.scenes import demo_model

from .conftest import Bench, Measured
from .sets import folder_call, ok, one_line, own_images


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> dict[str, Backbone]:
    """Models by name, as the commands load them."""
    models = {"demo": demo_model()}
    for module in (shared, data_sets):
        monkeypatch.setattr(module, "load", lambda chosen: models[chosen.model])
    return models


@pytest.fixture
def siglip(loaded: dict[str, Backbone], monkeypatch: pytest.MonkeyPatch) -> str:
    """A small model that pools by attention."""
    loaded["siglip"] = wrap_open_clip(tiny_siglip(monkeypatch))
    return "siglip"


# -- what is measured again -------------------------------------------------------------------


def change_image(own: Path) -> None:
    image = np.asarray(Image.open(own / "images" / "p1.jpg"))
    Image.fromarray(255 - image).save(own / "images" / "p1.jpg")


def change_mask(own: Path) -> None:
    labels = np.asarray(Image.open(own / "masks" / "p1.png")).copy()
    labels[5:15] = 0
    Image.fromarray(labels).save(own / "masks" / "p1.png")


@pytest.mark.parametrize("change", [change_image, change_mask])
def test_another_image_or_mask_under_the_same_name_is_measured_anew(
    bench: Bench, loaded: Any, own: Path, tmp_path: Path, measured: Measured, change: Any
) -> None:
    call = folder_call(own, "--methods", "cls,crop", "--json", tmp_path / "mine.json")
    assert bench(*call)[0] == 0
    measured.clear()
    change(own)
    code, _, err = bench(*call)
    assert code == 0, err
    assert measured == ["p1 cls", "p1 crop"]
    assert "Measured again: 2 kept records of p1 are of another image" in err
    measured.clear()
    code, _, err = bench(*call)
    assert measured == []
    assert "Measured again" not in err


def test_the_same_files_in_another_folder_are_the_same(
    bench: Bench, loaded: Any, own: Path, tmp_path: Path, measured: Measured
) -> None:
    more = ("--methods", "cls", "--json", tmp_path / "mine.json")
    assert bench(*folder_call(own, *more))[0] == 0
    measured.clear()
    assert bench(*folder_call(own_images(tmp_path / "copy"), *more))[0] == 0
    assert measured == []


def test_another_model_of_the_same_name_is_measured_anew(
    bench: Bench, loaded: Any, own: Path, tmp_path: Path, measured: Measured
) -> None:
    file = tmp_path / "mine.json"
    call = folder_call(own, "--methods", "cls", "--json", file)
    assert bench(*call)[0] == 0
    measured.clear()
    loaded["demo"] = wrap_open_clip(tiny_clip())
    code, _, err = bench(*call)
    assert code == 0, err
    assert measured == ["p0 cls", "p1 cls", "p2 cls"]
    assert "3 kept records of demo are of other weights" in err
    prints = json.loads(file.read_text("utf-8"))["settings"]["fingerprints"]
    assert prints == {"demo": loaded["demo"].fingerprint}


def test_another_name_of_a_region_is_another_record(
    bench: Bench, loaded: Any, own: Path, tmp_path: Path, measured: Measured
) -> None:
    names = own / "names.csv"
    rows = ["image,region,name", *(f"p{i},{value},{name}" for i in range(3) for value, name in
                                   ((1, "apple"), (2, "car")))]  # fmt: skip
    names.write_text("\n".join(rows))
    call = folder_call(own, "--methods", "cls", "--json", tmp_path / "mine.json")
    call[call.index("--names") + 1] = names
    assert bench(*call)[0] == 0
    measured.clear()
    names.write_text("\n".join(rows).replace("p2,1,apple", "p2,1,car"))
    assert bench(*call)[0] == 0
    assert measured == ["p2 cls"]


# -- what a model cannot do -------------------------------------------------------------------


def row_of(out: str, title: str) -> str:
    return next(line for line in out.splitlines() if line.startswith(f"| {title} |"))


def test_all_methods_on_a_tower_that_lacks_some_are_rows_that_say_so(
    bench: Bench, siglip: str, own: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    more = ("--models", siglip, "--limit", 1, "--json", file, "--plots", tmp_path)
    out = ok(bench(*folder_call(own, *more)))
    for title in ("RIS", "MaskCLIP", "CLIPSurgery", "SCLIP"):
        row = row_of(out, title)
        assert "| not for this model: " in row
        assert "Choose Crop or CLIP [CLS]" in row
        assert row.count("|") == row_of(out, "Crop").count("|")
    assert "needs weights" in row_of(out, "AlphaCLIP")
    for title in ("MaskInversion", "Crop", "FGVP"):
        assert "%" not in row_of(out, title)
        assert "not for this model" not in row_of(out, title)
    parts = json.loads(file.read_text("utf-8"))["parts"]
    assert "acc1" not in parts["siglip: ris"]
    assert bench("show", file)[1] == out
    drawn = (tmp_path / "folder-light.svg").read_text("utf-8")
    assert "FGVP" in drawn
    assert "CLIPSurgery" not in drawn


def test_a_model_that_can_do_nothing_of_what_is_asked_is_refused(
    bench: Bench, siglip: str, own: Path
) -> None:
    call = folder_call(own, "--methods", "sclip,maskclip", "--models", siglip)
    one_line(bench(*call), "Nothing can be measured", "SCLIP needs an open_clip")
    # Another model that can does.
    out = ok(bench(*call[:-1], f"{siglip},demo"))
    assert out.count("not for this model") == 2


def test_maps_that_a_tower_lacks_are_rows_that_say_so(bench: Bench, siglip: str) -> None:
    out = ok(bench("maps", "--models", siglip, "--scenes", 1, "--steps", 1))
    for name in ("gradcam", "gradcam-no-relu"):
        assert "not for this model: " in row_of(out, name)
        assert "Choose legrad or chefer" in row_of(out, name)
    for name in ("legrad", "legrad, 2 layers", "chefer"):
        assert "not for" not in row_of(out, name)


# -- the paper's figures ----------------------------------------------------------------------


def page_of(kind: str, data: str, *keys: str) -> dict[str, Any]:
    """A record with one model and these entries."""
    share = {"value": 0.5, "low": 0.4, "high": 0.6}
    parts = {
        key: {"model": "demo", "key": key, "title": key, "acc1": share, "seconds": 0.1}
        for key in keys
    }
    settings = {"data": data, "classes": ["a", "b"], "context": None, "models": ["demo"],
                "inversion": {"steps": 10, "learning_rate": 0.1, "alpha": 0.0}}  # fmt: skip
    return {"kind": kind, "settings": settings, "parts": parts, "images": 1, "regions": 2,
            "small": 0, "date": "2026-01-01", "command": "bench", "skipped": {}}  # fmt: skip


def test_the_papers_column_stands_beside_its_own_method_and_data_only() -> None:
    for kind, data in (("methods", "scenes"), ("aerial", "aerial"), ("folder", "folder")):
        assert "paper" not in markdown(page_of(kind, data, "crop", "maskinversion"))
    for kind in ("coco-panoptic", "methods"):
        out = markdown(page_of(kind, "coco-panoptic", "crop", "maskinversion", "fgvp+crop"))
        assert row_of(out, "crop").endswith("| 23.9 |")
        every = "44.7 (ViT-B/32 38.0, ViT-L/14 56.0, ViT-H/14 63.7)"
        assert row_of(out, "maskinversion").endswith(f"| {every} |")
        assert row_of(out, "fgvp+crop").endswith("|  |")
    keys = ("maskinversion/box", "crop/box")
    out = markdown(page_of("masks", "coco-panoptic", *keys))
    assert row_of(out, "maskinversion/box").endswith("| 42.9 |")
    assert row_of(out, "crop/box").endswith("|  |")
    out = markdown(page_of("masks", "scenes", *keys))
    assert "42.9" not in row_of(out, "maskinversion/box")
    assert "42.9" in out
    out = markdown(page_of("maps", "coco-panoptic", "legrad"))
    assert "85.4" not in row_of(out, "legrad")  # of VOC, not of COCO
    assert "by map: VOC, 19 classes" in out


def test_every_figure_of_the_paper_names_its_backbone() -> None:
    for kind, figure in (("alpha", "41.7"), ("masks", "44.3"), ("maps", "12.6")):
        text = paper_tables(kind, "scenes")
        assert "ViT-B/16" in text
        assert figure in text
    for row in paper_tables("coco-panoptic", "coco-panoptic").split("\n\n")[0].splitlines()[2:]:
        assert row.split(" | ")[1].startswith("ViT-")
    assert paper_tables("scenes", "scenes") == ""


# -- shares of nothing and of everything ------------------------------------------------------


@pytest.mark.parametrize("images", [1, 10, 100])
def test_a_ratio_of_nothing_or_everything_is_not_certain(images: int) -> None:
    names = [str(i) for i in range(images)]
    all_of_it = ratio(np.full(images, 7.0), np.full(images, 7.0), names)
    none = ratio(np.zeros(images), np.full(images, 7.0), names)
    end = 1.96**2 / (images + 1.96**2)  # Wilson's
    assert all_of_it == {"value": 1.0, "low": pytest.approx(1 - end, rel=1e-3), "high": 1.0}
    assert none == {"value": 0.0, "low": 0.0, "high": pytest.approx(end, rel=1e-3)}


def test_a_ratio_without_values_is_unknown() -> None:
    assert ratio([], [], []) == {"value": 0.0, "low": 0.0, "high": 1.0}


# -- a full disk ------------------------------------------------------------------------------


@pytest.fixture
def room() -> Any:
    """Let no file grow beyond a number of bytes, as a full disk would."""
    resource = pytest.importorskip("resource")
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int | None) -> None:
        soft = usual[0] if size is None else size
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, usual[1]))

    yield limit
    limit(None)


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limit there")
def test_a_disk_that_is_full_in_the_middle_of_a_line_leaves_whole_lines(
    bench: Bench, loaded: Any, own: Path, tmp_path: Path, room: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(targets, "_PROBE", b"")  # there is room when the work begins
    call = folder_call(own, "--methods", "cls,crop", "--json", tmp_path / "mine.json")
    records = tmp_path / "mine.records.jsonl"
    assert bench(*call)[0] == 0
    lines = records.read_bytes().splitlines(keepends=True)
    records.unlink()
    room(len(b"".join(lines[:3])) + 25)
    outcome = bench(*call)
    room(None)
    one_line(outcome, "mine.records.jsonl could not be written at demo / cls / p1", "make room")
    kept = records.read_text("utf-8").splitlines()
    assert [json.loads(line).get("image") for line in kept] == [None, "p0", "p0"]
    assert bench(*call)[0] == 0
    assert len(records.read_bytes().splitlines()) == len(lines)
