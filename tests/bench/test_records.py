"""Figures that are kept and resumed, and regions that a method cannot tell apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.bench.datasets.image_folder import ImageFolder
from napari_maskinversion.bench.measures import entries
from napari_maskinversion.bench.measures.figures_file import FiguresFile, read_figures
from napari_maskinversion.bench.measures.measuring import Measuring, MeasuringPlan, open_records
from tests.scenes import demo_model

SETTINGS = {"model": "demo", "scenes": 2}


def measured(file: Path, calls: list[str], *, overwrite: bool = False) -> FiguresFile:
    figures = FiguresFile(file, "scenes", SETTINGS, overwrite=overwrite)
    for name in ("seen", "unseen"):
        figures.part(name, lambda name=name: calls.append(name) or {"top1": 0.5})
    return figures


def test_finished_parts_are_not_measured_again(tmp_path: Path) -> None:
    file, calls = tmp_path / "mine.json", list[str]()
    first = measured(file, calls)
    assert json.loads(file.read_text("utf-8")) == first.page == read_figures(file)
    assert measured(file, calls).parts == first.parts
    assert calls == ["seen", "unseen"]
    measured(file, calls, overwrite=True)
    assert calls == ["seen", "unseen"] * 2
    with pytest.raises(InputError, match="another scenes"):
        FiguresFile(file, "scenes", SETTINGS | {"scenes": 3})
    with pytest.raises(InputError, match="'bench scenes'"):
        FiguresFile(file, "steps", SETTINGS)


def test_a_figures_file_without_records_is_continued(tmp_path: Path) -> None:
    """Version 0.1 kept finished parts in the figures file alone."""
    file, calls = tmp_path / "mine.json", list[str]()
    part = {"top1": 0.25, "date": "2026-01-01T00:00Z", "seconds": 1.0}
    old = {"kind": "scenes", "format": 1, "settings": SETTINGS, "parts": {"seen": part}}
    file.write_text(json.dumps(old))
    with pytest.raises(InputError, match="another scenes"):
        FiguresFile(file, "scenes", SETTINGS | {"scenes": 3})
    with pytest.raises(InputError, match="'bench scenes'"):
        FiguresFile(file, "steps", SETTINGS)
    assert measured(file, calls).parts["seen"] == part
    assert calls == ["unseen"]
    assert measured(file, calls).parts["seen"] == part
    assert calls == ["unseen"]
    (tmp_path / "other.json").write_text("[1, 2]")
    with pytest.raises(InputError, match="holds no whole figures"):
        FiguresFile(tmp_path / "other.json", "scenes", SETTINGS)


def test_regions_that_a_method_cannot_tell_apart_are_not_found_by_words(own: Path) -> None:
    """The whole image's embedding is that of each region: their order must not choose."""
    data = ImageFolder(own / "images", own / "masks", own / "names.txt")
    rows = entries.methods("cls,crop", InversionConfig(steps=1))
    plan = MeasuringPlan(models=("demo",), entries=tuple(rows))
    job = Measuring(data, plan, open_records(None, "folder", plan, data), lambda _: demo_model())
    job.run()
    answers = job.store.records["demo", "cls", "p0"]["mask"]
    assert len(answers) == 3
    sizes = [data.read("p0").regions[place].area for place in range(3)]
    for place, (rank, both, either, *_) in enumerate(answers):
        others = [size for other, size in enumerate(sizes) if other != place]
        assert (rank, both, either) == (2, 0, sizes[place] + max(others))
    # One that tells them apart chooses.
    assert any(row[0] == 0 for row in job.store.records["demo", "crop", "p0"]["mask"])
